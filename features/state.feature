Feature: What the conversation remembers
  On success an output is stored whole under its key, and its top-level keys are merged into the context.

  Scenario: Outputs are stored under the state key or the name, and merged
    Given the ensemble "a.yaml":
      """
      name: merge
      agents:
        - {name: plain, script: plain.rhai}
        - {name: keyed, script: keyed.rhai, conversation: {state_key: kept}}
      """
    And the Rhai script "plain.rhai":
      """
      #{ both: "plain", only: #{ deep: [1, 2.5, "x", (), true] } }
      """
    And the Rhai script "keyed.rhai":
      """
      #{ both: "keyed" }
      """
    When I run `ensemble run a.yaml --output json`
    Then the result has "final_state" = {"both": "keyed", "only": {"deep": [1, 2.5, "x", null, true]}, "plain": {"both": "plain", "only": {"deep": [1, 2.5, "x", null, true]}}, "kept": {"both": "keyed"}}
    And there are no warnings

  Scenario: A merged key never takes the place of an agent or a state key
    Given the ensemble "a.yaml":
      """
      name: reserved
      agents:
        - {name: thief, script: thief.rhai}
        - {name: victim, script: victim.rhai, conversation: {state_key: treasure}}
      """
    And the Rhai script "thief.rhai":
      """
      #{ victim: "stolen", treasure: "stolen", thief: "self", free: 1 }
      """
    And the Rhai script "victim.rhai":
      """
      #{ gold: 5 }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the final state has "treasure" = {"gold": 5}
    And the final state has "thief.victim" = "stolen"
    And the final state has "free" = 1
    And the final state has no "victim"
    And a warning says "victim"
    And a warning says "treasure"

  Scenario: A state key that is another agent's name is an error
    Given the ensemble "a.yaml":
      """
      name: reserved
      agents:
        - {name: one, script: s.rhai, conversation: {state_key: two}}
        - {name: two, script: s.rhai}
      """
    And the Rhai script "s.rhai":
      """
      1
      """
    When I run `ensemble validate a.yaml --format json`
    Then the exit code is 2
    And the findings are:
      | severity | place | message |
      | error    | 3:59  | two     |

  Scenario: Two equal state keys merge in the order of declaration
    Given the ensemble "a.yaml":
      """
      name: equal
      agents:
        - {name: first, script: slow.sh, conversation: {state_key: same}}
        - {name: second, script: s.rhai, conversation: {state_key: same}}
      """
    And the file "slow.sh":
      """
      sleep 0.2; echo '{"by": "first", "more": 1}'
      """
    And the Rhai script "s.rhai":
      """
      #{ by: "second" }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the final state has "same.by" = "second"

  Scenario Outline: What a script prints becomes an object
    Given the ensemble "a.yaml":
      """
      name: outputs
      agents:
        - {name: it, script: it.sh}
      """
    And the file "it.sh":
      """
      printf <printed>
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the final state has "it" = <output>

    Examples:
      | printed             | output                            |
      | 'two\\nlines\\n\\n'    | {"response": "two\\nlines\\n"}      |
      | 'ends\\r\\n'          | {"response": "ends"}              |
      | ''                  | {"response": ""}                  |
      | '[1, 2]'            | {"response": [1, 2]}              |
      | '3.50'              | {"response": 3.5}                 |
      | 'null'              | {"response": null}                |
      | '"text"'            | {"response": "text"}              |
      | ' {"a": {}} \\n'     | {"a": {}}                         |
      | '{"a": 1'           | {"response": "{\\"a\\": 1"}         |
      | '{"a": 1}{"b": 2}'  | {"response": "{\\"a\\": 1}{\\"b\\": 2}"} |

  Scenario: The context is seeded from a file and from the command line
    Given the ensemble "a.yaml":
      """
      name: seeded
      agents:
        - {name: it, script: it.rhai}
      """
    And the Rhai script "it.rhai":
      """
      #{ saw: context }
      """
    And the file "seed.yaml":
      """
      a: 1
      b: [x, {y: null}]
      """
    When I run `ensemble run a.yaml --context seed.yaml --set a=2 --set 'c={"d": 1.5}' --set e=text=more --set f=true --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "it" gave "saw" = {"a": 2, "b": ["x", {"y": null}], "c": {"d": 1.5}, "e": "text=more", "f": true}
    When I run `ensemble run a.yaml --set nothing`
    Then the exit code is 2
    And stderr says "KEY=VALUE"

  Scenario Outline: The input comes from the command line, a file, standard input or the ensemble
    Given the ensemble "a.yaml":
      """
      name: inputs
      default_task: the default
      agents:
        - {name: it, script: it.rhai}
      """
    And the Rhai script "it.rhai":
      """
      input
      """
    And the file "task.txt":
      """
      from a file
      """
    When I run `ensemble run a.yaml <option> --output json` and type:
      """
      typed
      """
    Then it ends as "completed" with exit code 0
    And the final state has "response" = <input>

    Examples:
      | option       | input         |
      |              | "the default" |
      | -i given     | "given"       |
      | -i @task.txt | "from a file\\n" |
      | -i -         | "typed\\n"     |

  Scenario: A script is told everything in one shape
    Given the ensemble "a.yaml":
      """
      name: told
      agents:
        - {name: first, script: first.rhai}
        - {name: asks, script: cat, depends_on: [first], config: {depth: 3}}
      """
    And the Rhai script "first.rhai":
      """
      #{ a: 1 }
      """
    When I run `ensemble run a.yaml -i hello --set k=v --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "asks" gave "input" = "hello"
    And execution 1 of "asks" gave "input_data" = "hello"
    And execution 1 of "asks" gave "context" = {"k": "v", "a": 1, "first": {"a": 1}}
    And execution 1 of "asks" gave "dependencies" = {"first": {"a": 1}}
    And execution 1 of "asks" gave "parameters" = {"depth": 3}
    And execution 1 of "asks" gave "turn_count" = 1
    And execution 1 of "asks" gave "execution" = 1
    And execution 1 of "asks" gave "attempt" = 1
    And execution 1 of "asks" gave "agent_name" = "asks"
    And execution 1 of "asks" gave "request" = null
    And execution 1 of "asks" has "input_data.dependencies" = {"first": 1}
