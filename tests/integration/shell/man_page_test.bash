# The man page names every command, option and environment variable, and formats without a warning.
# shellcheck source-path=SCRIPTDIR source=lib.bash
source "${BASH_SOURCE%/*}/lib.bash"

text=$("$tool" help --man)
count=$(options_of_page | wc -l)
[[ $count -gt 100 ]] || fail "$count options on the page"

# "COMMAND --OPTION" for every item under a command's heading.
options_of_man() {
  local line command=
  while IFS= read -r line; do
    case $line in
      '.SH '*) command= ;;
      '.SS foretoken '*)
        command=${line#'.SS foretoken '}
        command=${command%' [options]'}
        command=${command%' MODEL'}
        ;;
      '\fB--'*) [[ $command ]] && line=${line#'\fB'} && echo "$command ${line%%'\fP'*}" ;;
    esac
  done <<< "${text//\\-/-}"
}
differences=$(diff <(options_of_page) <(options_of_man)) || fail "the page (<) and the man page (>) differ:"$'\n'"$differences"
for name in FORETOKEN_BACKEND_PATH FORETOKEN_MODELS; do
  grep -qF "\\fB$name\\fP" <<< "$text" || fail "no item of $name"
done

if command -v man > /dev/null; then
  warnings=$(man --warnings -E UTF-8 -l - <<< "$text" 2>&1 > /dev/null || echo "man ended with $?")
  [[ -z $warnings ]] || fail "$warnings"
fi
finish
