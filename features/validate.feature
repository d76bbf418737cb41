Feature: Validate
  Every problem of a file in one go, each with its place and what to do.

  Scenario: A sound file has no findings
    Given the ensemble "a.yaml":
      """
      name: sound
      agents:
        - {name: it, script: "true"}
      """
    When I run `ensemble validate a.yaml --format json`
    Then the exit code is 0
    And there are no findings
    And the result has "version" = 1

  Scenario: All problems are reported at once, in the order of the text
    Given the ensemble "a.yaml":
      """
      name: many
      agents:
        - name: one
          scirpt: x.rhai
        - name: one
          script: "true"
          depends_on: [tow]
          conversation: {max_turns: 0}
        - name: three
          script: "true"
          dependencies:
            - agent_name: one
              condition: "contxt.x"
            - {agent_name: one, requires_al: false}
      conversation_limits: {timeout_seconds: soon}
      """
    When I run `ensemble validate a.yaml --format json`
    Then the exit code is 2
    And the findings include:
      | place | message     |
      | 4:5   | scirpt      |
      | 5:11  | one         |
      | 7:18  | tow         |
      | 8:31  | 1           |
      | 14:27 | requires_al |
      | 15:40 | soon        |
    And stdout says "did you mean `script`"

  Scenario Outline: A key of llm-orc's plain ensembles is named, and what to write here instead
    Given the ensemble "a.yaml":
      """
      name: orc
      agents:
        - name: one
          script: "true"
          <key>: x
      """
    When I run `ensemble validate a.yaml`
    Then the exit code is 2
    And stdout says "a.yaml:5:5"
    And stdout says "<key>"
    And stdout says "llm-orc"
    And stdout says "help"

    Examples:
      | key        |
      | when       |
      | fan_out    |
      | loop       |
      | dispatch   |
      | input_key  |
      | options    |
      | validation |

  Scenario: A plain ensemble with depends_on keeps working
    Given the ensemble "a.yaml":
      """
      name: plain
      description: an ensemble without conversation
      agents:
        - {name: a, script: echo one, parameters: {x: 1}}
        - {name: b, script: cat, depends_on: [a], parameters: {x: 2}}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "b" gave "parameters" = {"x": 2}

  Scenario: An unknown profile is a warning of validate and an error of run
    Given the ensemble "a.yaml":
      """
      name: elsewhere
      agents:
        - {name: a, model_profile: theirs, prompt: Hello.}
      """
    When I run `ensemble validate a.yaml --format json`
    Then the exit code is 0
    And the findings are:
      | severity | place | message |
      | warning  | 3:30  | theirs  |
    When I run `ensemble run a.yaml`
    Then the exit code is 2
    And stderr says "theirs"
    And no run was started
    When I run `ensemble run a.yaml --model theirs=simulated --output json`
    Then it ends as "completed" with exit code 0

  Scenario: A folder is searched, and standard input may be checked
    Given the ensemble "good/a.yaml":
      """
      name: good
      agents: [{name: a, script: "true"}]
      """
    And the ensemble "good/deeper/b.yml":
      """
      name: good
      agents: [{name: a, script: "true", unknown: 1}]
      """
    When I run `ensemble validate good`
    Then the exit code is 2
    And stdout says "good/deeper/b.yml:2"
    And stderr says "2 files checked: 1 error"
    When I run `ensemble validate -` and type:
      """
      name: [
      """
    Then the exit code is 2
    And stdout says "<stdin>"
    When I run `ensemble validate nothing-here.yaml`
    Then the exit code is 2
    And stderr says "nothing-here.yaml"

  Scenario: The same agent in depends_on and dependencies is an error, twice in dependencies is fine
    Given the ensemble "a.yaml":
      """
      name: twice
      agents:
        - {name: a, script: "true"}
        - name: b
          script: "true"
          depends_on: [a]
          dependencies: [{agent_name: a}]
      """
    When I run `ensemble validate a.yaml`
    Then the exit code is 2
    Given in "a.yaml" `depends_on: [a]` becomes `description: fine`
    And in "a.yaml" `[{agent_name: a}]` becomes `[{agent_name: a, condition: "turn_count > 0"}, {agent_name: a, condition: "turn_count > 1", requires_all: false}]`
    When I run `ensemble validate a.yaml`
    Then the exit code is 0

  Scenario: Anchors, aliases and merge keys work
    Given the ensemble "a.yaml":
      """
      name: anchors
      agents:
        - &base {name: a, script: cat, config: &config {x: 1}}
        - {<<: *base, name: b, depends_on: [a]}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "b" gave "parameters" = {"x": 1}

  Scenario: A dry run says who would run first and runs nothing
    Given the ensemble "a.yaml":
      """
      name: dry
      agents:
        - {name: a, script: "touch ran.txt"}
        - {name: b, script: "true", depends_on: [a]}
      """
    When I run `ensemble run a.yaml --dry-run`
    Then the exit code is 0
    And stdout says "a"
    And stdout says "b: waiting for a"
    And there is no file "ran.txt"
    And no run was started

  Scenario Outline: What is no use of the program ends with exit code 2
    When I run `ensemble <arguments>`
    Then the exit code is 2
    And stdout is empty
    And no run was started

    Examples:
      | arguments               |
      | run                     |
      | run nothing.yaml        |
      | run a.yaml --outptu x   |
      | frobnicate              |
      | resume                  |

  Scenario: A misspelt key for what an agent runs is one problem
    Given the ensemble "a.yaml":
      """
      name: one
      agents:
        - name: it
          scritp: echo hello
      """
    When I run `ensemble validate a.yaml --format json`
    Then the exit code is 2
    And the findings are:
      | severity | place | message |
      | error    | 4:5   | scritp  |
