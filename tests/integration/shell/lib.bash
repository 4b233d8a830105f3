# Common to the tests of this folder. $1 is the tool, $2 the page of its options.
set -euo pipefail
tool=$1
page=$2
failures=0

fail() {
  echo "FAILED: $*" >&2
  failures=$((failures + 1))
}

# "COMMAND --OPTION" for every option of the page.
options_of_page() {
  local line command=
  while IFS= read -r line; do
    case $line in
      '## foretoken '*) command=${line#'## foretoken '} ;;
      '## '*) command= ;;
      '| `--'*) [[ $command ]] && line=${line#'| `'} && echo "$command ${line%%[\` ]*}" ;;
    esac
  done < "$page"
}

finish() {
  [[ $failures -eq 0 ]] || exit 1
}
