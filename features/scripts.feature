Feature: Scripts
  A script gets its arguments and its standard input from templates, and a run refuses to start without its scripts.

  Background:
    Given the Rhai script "list.rhai":
      """
      #{ files: ["a b.txt", "$HOME;exit 3"], title: "two" }
      """
    And the file "count.sh":
      """
      printf '%s|' "$#" "$@"
      cat
      """

  Scenario: Each argument is one argument, whatever its text is, and a template replaces standard input
    Given the ensemble "a.yaml":
      """
      name: files
      agents:
        - {name: list, script: list.rhai}
        - name: count
          script: count.sh
          depends_on: [list]
          args: ["{{ list.files[0] }}", "{{ list.files[1] }}", "", "--{{ list.title }}"]
          stdin: "{{ input }} of {{ list.title }}"
      """
    When I run `ensemble run a.yaml -i files --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "count" gave "response" = "4|a b.txt|$HOME;exit 3||--two|files of two"

  Scenario: A script that reads plain text needs no glue for each item of a list
    Given the ensemble "a.yaml":
      """
      name: each
      agents:
        - {name: list, script: list.rhai}
        - name: count
          script: count.sh
          depends_on: [list]
          for_each: {in: outputs.list.files, as: file}
          args: ["{{ file }}"]
          stdin: ""
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "count" gave "items" = [{"response": "1|a b.txt|"}, {"response": "1|$HOME;exit 3|"}]

  Scenario Outline: A script that is missing or wrong is refused before a model is asked
    Given a model server "paid" that answers, one after the other:
      | says I was paid. |
    And the Rhai script "broken.rhai":
      """
      let = 1;
      """
    And the Rhai script "wrong.rhai":
      """
      shout(input)
      """
    And the file "inner.yaml":
      """
      name: inner
      agents: [{name: deep, script: nowhere.rhai}]
      """
    And the ensemble "a.yaml":
      """
      name: refused
      model_profiles:
        paid: {provider: openai, base_url: "{paid}", model: m, api_key_env: NO_KEY}
      agents:
        - {name: first, model_profile: paid, <more>}
        - {name: last, depends_on: [first], <kind>}
      <rest>
      """
    And the environment variable NO_KEY is "x"
    When I run `ensemble run a.yaml`
    Then the exit code is 2
    And stderr says "<code>"
    And no run was started
    And "paid" was asked 0 times

    Examples:
      | kind                         | more                   | rest                                                              | code |
      | script: nowhere.sh           | prompt: x              |                                                                   | E106 |
      | script: broken.rhai          | prompt: x              |                                                                   | E047 |
      | script: wrong.rhai           | prompt: x              |                                                                   | E103 |
      | script: list.rhai, args: [x] | prompt: x              |                                                                   | E108 |
      | ensemble: inner.yaml         | prompt: x              |                                                                   | E106 |
      | script: list.rhai            | attachments: [gone.md] |                                                                   | E057 |
      | script: list.rhai            | tools: [t]             | tools: {t: {script: wrong.rhai, parameters: {type: object}}}      | E103 |
      | script: list.rhai            | prompt: x              | tools: {spare: {script: nowhere.rhai, parameters: {type: object}}} | E106 |
      | script: list.rhai            | tools: [t]             | tools: {t: {mcp: {command: nosuchserver --x}}}                     | E106 |
