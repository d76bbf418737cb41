# An external agent for tests: what it does to a prompt is its first argument. It speaks no more of the protocol than it must.
say() { printf '%s\n' "$1"; }
result() { say "{\"jsonrpc\":\"2.0\",\"id\":$1,\"result\":$2}"; }
update() { say "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s1\",\"update\":$1}}"; }
text() { update "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"$1\"}}"; }
end() { result "$prompt" "{\"stopReason\":\"${1:-end_turn}\"}"; }

file() { # method path: asks for a file outside of a permission, and says how that ended
    say "{\"jsonrpc\":\"2.0\",\"id\":\"f\",\"method\":\"$1\",\"params\":{\"sessionId\":\"s1\",\"path\":\"$2\",\"content\":\"changed\"}}"
    read -r answer
    case $answer in
    *'"error"'*) text refused ;;
    *) text done ;;
    esac
    end
}

prompted() {
    case $1 in
    mute) echo $$ > prompted ;;
    halfway)
        if [ -e again ]; then
            case $line in
            *"You used a tool: look"*"interrupted before its end"*) text "told what was done, and to go on" ;;
            *) text "told nothing" ;;
            esac
            end
            return
        fi
        touch again
        update '{"sessionUpdate":"tool_call","toolCallId":"c","title":"look","kind":"read","status":"completed"}'
        ;;
    die)
        echo "something broke" >&2
        exit 3
        ;;
    noise)
        say 'running 1 test'
        say '{"broken": '
        say '{"jsonrpc":"2.0","id":999,"result":{}}'
        say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"other","update":{}}}'
        say '{"jsonrpc":"2.0","id":"x","method":"terminal/create","params":{}}'
        read -r _
        text 'all the same'
        end
        ;;
    giant)
        head -c 17000000 /dev/zero | tr '\0' x
        echo
        end
        ;;
    stop) end "$2" ;;
    http | plain)
        text done
        end
        ;;
    refuse) say "{\"jsonrpc\":\"2.0\",\"id\":$prompt,\"error\":{\"code\":-32000,\"message\":\"no login\"}}" ;;
    sneaky)
        update '{"sessionUpdate":"tool_call","toolCallId":"c","title":"rm -rf","kind":"execute","status":"in_progress"}'
        text done
        end
        ;;
    env)
        text "secret=$SECRET given=$GIVEN"
        end
        ;;
    file) file "$2" "$3" ;;
    twice)
        update '{"sessionUpdate":"tool_call","toolCallId":"c","title":"look","kind":"read","status":"pending"}'
        update '{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"in_progress"}'
        update '{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"in_progress"}'
        long=$(head -c 70000 /dev/zero | tr '\0' x)
        seen="\"content\":[{\"type\":\"content\",\"content\":{\"type\":\"text\",\"text\":\"$long\"}}]"
        update "{\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"c\",\"status\":\"completed\",$seen}"
        update "{\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"c\",\"status\":\"completed\",$seen}"
        text done
        end
        ;;
    diffs)
        for new in two three; do
            diff="{\"type\":\"diff\",\"path\":\"/a.txt\",\"oldText\":\"one\",\"newText\":\"$new\"}"
            update "{\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"c\",\"title\":\"t\",\"kind\":\"edit\",\"status\":\"pending\",\"content\":[$diff]}"
        done
        text done
        end
        ;;
    flood)
        piece=$(head -c 1000000 /dev/zero | tr '\0' x)
        for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17; do text "$piece"; done
        end
        ;;
    permit) # path: asks for an edit of the file, and writes it when that is allowed
        call="{\"toolCallId\":\"c\",\"title\":\"change\",\"kind\":\"edit\",\"content\":[{\"type\":\"diff\",\"path\":\"$2\",\"newText\":\"changed\"}]}"
        options='[{"optionId":"y","name":"Yes","kind":"allow_once"},{"optionId":"n","name":"No","kind":"reject_once"}]'
        say "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"session/request_permission\",\"params\":{\"sessionId\":\"s1\",\"toolCall\":$call,\"options\":$options}}"
        ;;
    remember | loads | forgets | resumes)
        case $line in
        *"What was said"*) text "told again" ;;
        *) text "prompt $count of $$" ;;
        esac
        end
        ;;
    esac
}

count=0
while read -r line; do
    id=${line#*\"id\":}
    id=${id%%,*}
    case $line in
    *'"initialize"'*)
        case $1 in
        http) result "$id" '{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true}}}' ;;
        loads | forgets) result "$id" '{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}' ;;
        resumes) result "$id" '{"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"resume":{}}}}' ;;
        *) result "$id" '{"protocolVersion":1,"agentCapabilities":{}}' ;;
        esac
        ;;
    *'"session/new"'*)
        printf '%s\n' "$line" >> sessions.txt
        result "$id" '{"sessionId":"s1"}'
        ;;
    *'"id":"p"'*)
        case $line in
        *'"optionId":"y"'*) file fs/write_text_file "$2" ;;
        *'"outcome":"cancelled"'*) end cancelled ;;
        *)
            update '{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed"}'
            text 'not allowed'
            end
            ;;
        esac
        ;;
    *'"session/load"'* | *'"session/resume"'*)
        printf '%s\n' "$line" >> sessions.txt
        case $1 in
        forgets) say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32002,\"message\":\"no such session\"}}" ;;
        *)
            text "what was said before"
            result "$id" '{}'
            ;;
        esac
        ;;
    *'"session/prompt"'*)
        prompt=$id
        count=$((count + 1))
        prompted "$@"
        ;;
    *'"session/cancel"'*)
        echo yes > cancelled
        case $1 in
        permit) ;;
        *) end cancelled ;;
        esac
        ;;
    esac
done
