Feature: Tools without a model
  An agent can be one tool of an MCP server: its arguments are templates, and the result of the call is its output.

  Background:
    Given the program "wiki.sh":
      """
      #!/bin/sh
      say() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
      while IFS= read -r line; do
        id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
        case "$line" in
        *'"method":"initialize"'*)
          say '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"wiki","version":"1"}}' ;;
        *'"method":"tools/list"'*)
          say '{"tools":[{"name":"search","description":"d","inputSchema":{"type":"object","properties":{"query":{"type":"string"},"limit":{"type":"integer"}},"required":["query"]}}]}' ;;
        *'"method":"tools/call"'*)
          query=$(printf '%s' "$line" | sed -n 's/.*"query":"\([^"]*\)".*/\1/p')
          say "{\"content\":[{\"type\":\"text\",\"text\":\"found\"}],\"structuredContent\":{\"hits\":3,\"about\":\"$query\"}}" ;;
        esac
      done
      """
    And the ensemble "a.yaml":
      """
      name: look-it-up
      default_task: tides
      tools:
        wiki: {mcp: {command: [./wiki.sh]}, permission: allow}
      agents:
        - name: lookup
          tool: wiki.search
          arguments: {query: "{{ input }}", limit: 5}
        - name: person
          input: "Is it enough?"
          dependencies: [{agent_name: lookup, condition: output.hits < 2}]
      """

  Scenario: The result of a call is the output of the agent, and conditions read it
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "lookup" gave "hits" = 3
    And execution 1 of "lookup" gave "about" = "tides"
    And "person" never ran: condition false on lookup: output.hits < 2 (output.hits = 3)

  Scenario: Arguments that the tool does not take are a failure before the call
    Given in "a.yaml" `limit: 5` becomes `limit: five`
    When I run `ensemble run a.yaml --output json`
    Then it ends as "agent_failed" with exit code 1
    And execution 1 of "lookup" failed (refusal) saying "the arguments of `wiki.search` are wrong"

  Scenario: What can be known before a run is told by validate
    Given in "a.yaml" `tool: wiki.search` becomes `tool: wikki.search`
    When I run `ensemble validate a.yaml --output json`
    Then the findings include:
      | place | message                        |
      | 7:11  | there is no MCP server 'wikki' |
