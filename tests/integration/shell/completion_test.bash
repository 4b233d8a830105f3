# What completion offers, by the function that bash would call.
# shellcheck source-path=SCRIPTDIR source=lib.bash
source "${BASH_SOURCE%/*}/lib.bash"
eval "$("$tool" help --completion bash)"

# offered WORD...: what completes the last of the words, as bash splits them, on one line.
offered() {
  COMP_WORDS=(foretoken "$@") COMP_CWORD=$# COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
  COMPREPLY=()
  _foretoken || fail "completion of '$*' ended with $?"
  local IFS=' '
  echo "${COMPREPLY[*]}"
}

# expect 'WORDS OFFERED' WORD...
expect() {
  local got
  got=$(offered "${@:2}")
  [[ $got == "$1" ]] || fail "completion of '${*:2}': expected '$1', got '$got'"
}

folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
mkdir "$folder/model" "$folder/two words"
touch "$folder/text.txt" "$folder/more.txt"
cd "$folder" || exit 1

count=0
while read -r entry; do
  count=$((count + 1))
  read -ra words <<< "$entry"
  [[ " $(offered "${words[@]:0:${#words[@]}-1}" --) " == *" ${words[-1]} "* ]] || fail "'$entry' is not offered"
done < <(options_of_page)
[[ $count -gt 100 ]] || fail "$count options on the page"

expect 'generate' gen
expect 'decode draft acceptance serve kernels' bench ''
expect 'kernels' bench k
expect 'bench' help b
expect 'serve' help bench s
expect 'bash' help --completion ''
expect '--version' --v
expect '--kv-dtype --kv-cache-tokens' generate --kv
expect '--help' devices --h
expect '' generate --max-tokens ''
expect '--json' generate --max-tokens 4 --js
expect 'auto f32 bf16 fp8' generate --kv-dtype ''
expect 'fp8' generate --kv-dtype f8 --draft-kv-dtype fp
expect 'bf16' generate --kv-dtype = bf
expect 'off on' generate --prefix-turns ''
expect 'fp8-block fp8-row' quantize --format fp8
expect 'target,mtp' quantize --scope target,m
expect 'linear,moe' bench kernels --op linear,mo
expect 'qwen3.5-0.8b' generate --model synth : qwen3.5-0
expect 'qwen3.5-0.8b' inspect synth : qwen3.5-0
expect 'qwen3.5-0.8b' synth --like qwen3.5-0
expect 'rms_norm' conformance --op rm
expect 'model' generate --model m
expect 'model' inspect m
expect 'two words' quantize --output tw
expect 'text.txt' generate --prompt-file te
expect 'text.txt,more.txt' draft-vocab --from text.txt,mor
expect '' nonsense --js
finish
