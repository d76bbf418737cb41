#!/bin/sh
# A server of tools that misbehaves. Every start is a line in starts.txt, every message that it gets one in heard.txt.
# HANDSHAKE says how it begins (well, hang, exit, garbage); its tools say by their names what they do.
echo $$ >> starts.txt
echo "hostile began" >&2
say() { printf '%s\n' "$1"; }
answer() { say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$1}"; }
text() { answer "{\"content\":[{\"type\":\"text\",\"text\":\"$1\"}]}"; }
shaped() {
    printf '{"name":"%s","description":"d","inputSchema":{"type":"object"},"outputSchema":{"type":"object","required":["n"]}}' "$1"
}
content() { answer "{\"content\":[{\"type\":\"text\",\"text\":\"see\"}$1"; }
# What a question wants to know.
fields='"name":{"type":"string","minLength":2},"age":{"type":"integer","minimum":0},"sure":{"type":"boolean","default":true}'
fields="$fields,\"colour\":{\"type\":\"string\",\"enum\":[\"red\",\"green\"]}"
# Tools whose arguments have a schema.
strict='{"name":"strict","description":"d","inputSchema":{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}}'
strict="$strict,{\"name\":\"broken\",\"description\":\"d\",\"inputSchema\":{\"type\":\"object\",\"required\":3}}"
strict="$strict,{\"name\":\"reads\",\"description\":\"d\",\"inputSchema\":{\"type\":\"object\"},\"annotations\":{\"readOnlyHint\":true}}"
tool() { printf '{"name":"%s","description":"d","inputSchema":{"type":"object"}}' "$1"; }

while IFS= read -r line; do
    printf '%s\n' "$line" >> heard.txt
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    case "$line" in
    *'"action":"'*) id=$asking; text "$(printf '%s' "$line" | sed 's/.*"result"://; s/}$//; s/"/\\"/g')" ;;
    *'"method":"initialize"'*)
        case "${HANDSHAKE:-well}" in
        hang) sleep 300 & wait ;;
        exit) echo "no licence" >&2; exit 4 ;;
        garbage) say 'Welcome!'; say '{"half":'; say '[1,2' ;;
        esac
        answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"hostile","version":"1"}}'
        ;;
    *'"method":"tools/list"'*)
        case "$line" in
        *'"cursor":"second"'*)
            more=""
            if [ -e grown ]; then more=",$(tool new.one)"; fi
            answer "{\"tools\":[$(tool garbage),$(tool grow),$(tool env),$(tool stubborn),$(tool future),$(tool json),$(tool ask),$(shaped right),$(shaped wrong),$strict$more]}"
            ;;
        *) answer "{\"tools\":[$(tool die),$(tool huge),$(tool slow)],\"nextCursor\":\"second\"}" ;;
        esac
        ;;
    *'"method":"tools/call"'*)
        case "$line" in
        *'"name":"die"'*) echo "I die" >&2; exit 7 ;;
        *'"name":"huge"'*) head -c 17000000 /dev/zero | tr '\0' x; sleep 300 ;;
        *'"name":"garbage"'*) say 'tra la la'; say '{"jsonrpc":"2.0"}'; text 'after garbage' ;;
        *'"name":"grow"'*) touch grown; say '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'; text grown ;;
        *'"name":"stubborn"'*) sleep 300 ;;
        *'"name":"env"'*) text "$PLANTED $PREFIXED $(pwd | sed 's/.*\///')" ;;
        *'"name":"future"'*) content ',{"type":"video","mimeType":"video/x","data":"AAEC"}]}' ;;
        *'"name":"json"'*) text '{\"n\": 1}' ;;
        *'"name":"right"'*) content '],"structuredContent":{"n":1}}' ;;
        *'"name":"wrong"'*) content '],"structuredContent":{"m":1}}' ;;
        *'"name":"ask"'*)
            asking=$id
            say "{\"jsonrpc\":\"2.0\",\"id\":900,\"method\":\"elicitation/create\",\"params\":{\"message\":\"Who are\\u001b[2K you?\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{$fields},\"required\":[\"name\",\"colour\"]}}}"
            ;;
        *'"name":"reads"'*) text read ;;
        *'"name":"new.one"'*) text 'as new' ;;
        esac
        ;;
    esac
done
