# A hostile external agent for tests. It plays the lines of attack.txt at each prompt, and of attack-2.txt at the second one:
#   > MESSAGE      sends a message; SESSION and PROMPT are replaced
#   * N MESSAGE    sends a message N times
#   <              waits for one message
#   ! COMMAND      runs a command
# Then it ends its turn. What it hears is appended to heard-NAME.txt. Its arguments: NAME and the id of its session.
name=${1:-a}
session=${2:-s1}
hear() {
    IFS= read -r line || exit 0
    printf '%s\n' "$line" >> "heard-$name.txt"
}
fill() { printf '%s\n' "$1" | sed "s/SESSION/$session/g; s/PROMPT/$prompt/g"; }
play() {
    while IFS= read -r step <&3; do
        case $step in
        '> '*) fill "${step#> }" ;;
        '* '*)
            rest=${step#* }
            message=$(fill "${rest#* }")
            yes "$message" | head -n "${rest%% *}"
            ;;
        '<') hear ;;
        '! '*) eval "${step#! }" ;;
        esac
    done 3< "$1"
    printf '{"jsonrpc":"2.0","id":%s,"result":{"stopReason":"end_turn"}}\n' "$prompt"
}
count=0
while hear; do
    id=${line#*\"id\":}
    id=${id%%,*}
    case $line in
    *'"initialize"'*)
        printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}\n' "$id"
        ;;
    *'"session/new"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"sessionId":"%s"}}\n' "$id" "$session" ;;
    *'"session/load"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{}}\n' "$id" ;;
    *'"session/prompt"'*)
        prompt=$id
        count=$((count + 1))
        if [ -e "attack-$count.txt" ]; then play "attack-$count.txt"; else play attack.txt; fi
        ;;
    esac
done
