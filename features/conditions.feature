Feature: Conditions
  Rhai's and Python's spelling, one number type, Python's truth, and nothing silently false.

  Scenario Outline: <condition> is <truth>
    Given the ensemble "a.yaml":
      """
      name: truth
      agents:
        - name: source
          script: source.rhai
        - name: asked
          script: asked.rhai
          dependencies:
            - agent_name: source
              condition: >-
                <condition>
      """
    And the Rhai script "source.rhai":
      """
      #{ n: 3, f: 1.0, word: "abc", empty: "", list: [1, 2], map: #{ k: #{ d: 7 } }, yes: true, none: () }
      """
    And the Rhai script "asked.rhai":
      """
      1
      """
    When I run `ensemble run a.yaml -i hello --output json`
    Then it ends as "completed" with exit code 0
    And the result has "agent_execution_count.asked" = <truth>

    Examples: Python's spelling
      | condition                                             | truth |
      | context.get('n', 0) == 3                              | 1     |
      | context.get('missing', False)                         | 0     |
      | context.get('missing') is None                        | 1     |
      | output.word is not None                               | 1     |
      | 'n' in context and 'x' not in context                 | 1     |
      | len(output.list) == 2                                 | 1     |
      | output.get('map', {}).get('k', {}).get('d') == 7      | 1     |
      | output.get('nope', {}).get('k', {}).get('d') == 7     | 0     |
      | output.n in (1, 3)                                    | 1     |
      | True if output.yes else False                         | 1     |
      | 1 < output.n < 3                                      | 0     |
      | 1 < output.n <= 3                                     | 1     |
      | not output.yes or output.none                         | 0     |
      | -7 % 3 == 2                                           | 1     |

    Examples: Rhai's spelling
      | condition                                             | truth |
      | context.n == 3 && !context.missing                    | 1     |
      | "n" in context                                        | 1     |
      | output.word.len() == 3                                | 1     |
      | output["list"][1] == 2                                | 1     |

    Examples: truth and numbers
      | condition                                             | truth |
      | output.f == 1                                         | 1     |
      | 7 / 2 == 3.5                                          | 1     |
      | output.n == "3"                                       | 0     |
      | output.n != "3"                                       | 1     |
      | output.empty                                          | 0     |
      | output.list                                           | 1     |
      | output.none                                           | 0     |
      | 0 or output.word                                      | 1     |
      | []                                                    | 0     |
      | {}                                                    | 0     |
      | output.missing and 1 / 0                              | 0     |

    Examples: what can be named
      | condition                                             | truth |
      | input == 'hello'                                      | 1     |
      | turn_count == 1                                       | 1     |
      | executions['source'] == 1 and executions['asked'] == 0 | 1     |
      | agent_execution_count.source == 1                     | 1     |
      | history[-1].agent_name == 'source'                    | 1     |
      | history[0].turn_number == 1                           | 1     |
      | history[-1].output_data.n == 3                        | 1     |
      | history[-1].success                                   | 1     |

  Scenario Outline: The truth of a text that reads false is an error: <condition>
    Given the ensemble "a.yaml":
      """
      name: clear
      agents:
        - name: judge
          script: judge.rhai
        - name: asked
          script: asked.rhai
          dependencies:
            - agent_name: judge
              condition: >-
                <condition>
      """
    And the Rhai script "judge.rhai":
      """
      #{ approved: " No", open: "none", word: "nothing", yes: true }
      """
    And the Rhai script "asked.rhai":
      """
      1
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "<reason>" with exit code <code>
    And the result has "agent_execution_count.asked" = <ran>
    And stderr <says>

    Examples: where truth is asked
      | condition                                  | reason           | code | ran | says |
      | output.approved                            | condition_failed | 1    | 0   | says "`output.approved` is the string ' No', which would count as true: compare it with `==`, or ask the agent for a boolean with `output_schema`" |
      | not output.open                            | condition_failed | 1    | 0   | says "`output.open` is the string 'none', which would count as true" |
      | output.yes && output.open                  | condition_failed | 1    | 0   | says "`output.open` is the string 'none'" |
      | output.missing or output.approved or True  | condition_failed | 1    | 0   | says "`output.approved` is the string" |
      | True if output.open else True              | condition_failed | 1    | 0   | says "`output.open` is the string 'none'" |
      | bool(output.approved)                      | condition_failed | 1    | 0   | says "`output.approved` is the string" |

    Examples: where it is not
      | condition                                  | reason    | code | ran | says     |
      | output.approved.strip().lower() == 'no'    | completed | 0    | 1   | is empty |
      | (output?.missing or 'none') == output.open | completed | 0    | 1   | is empty |
      | output.yes or output.approved              | completed | 0    | 1   | is empty |
      | output.word                                | completed | 0    | 1   | is empty |

  Scenario: A condition reads the latest output of any agent, and a failure leaves it as it was
    Given the ensemble "a.yaml":
      """
      name: everybody
      agents:
        - name: count
          script: count.rhai
          on_error: continue
          conversation: {max_turns: 3, trigger: every_turn}
        - name: idle
          script: one.rhai
          dependencies: [{agent_name: count, condition: "'idle' in outputs"}]
        - name: ticker
          script: one.rhai
          conversation: {max_turns: 4, trigger: every_turn}
        - name: judge
          script: one.rhai
          dependencies:
            - {agent_name: ticker, condition: "executions.count == 3 and outputs.count.n == 2 and 'idle' not in outputs and outputs.get('judge') is None"}
      """
    And the Rhai script "count.rhai":
      """
      if execution == 3 { throw "broken" }
      #{ n: execution }
      """
    And the Rhai script "one.rhai":
      """
      1
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the agents ran in this order:
      | turn | agents        |
      | 1    | count, ticker |
      | 2    | count, ticker |
      | 3    | count, ticker |
      | 4    | ticker, judge |

  Scenario: A condition that reads the output of an unknown agent is an error before a run
    Given the ensemble "a.yaml":
      """
      name: unknown
      agents:
        - {name: writer, script: s.rhai}
        - {name: judge, script: s.rhai, dependencies: [{agent_name: writer, condition: "outputs.writr.n == 1"}]}
      """
    When I run `ensemble validate a.yaml`
    Then the exit code is 2
    And stdout says "did you mean `writer`?"

  Scenario: A condition may be a YAML boolean
    Given the ensemble "a.yaml":
      """
      name: booleans
      agents:
        - {name: source, script: s.rhai}
        - {name: open, script: s.rhai, dependencies: [{agent_name: source, condition: true}]}
        - {name: shut, script: s.rhai, dependencies: [{agent_name: source, condition: false}]}
      """
    And the Rhai script "s.rhai":
      """
      1
      """
    When I run `ensemble run a.yaml --output json`
    Then the agents ran in this order:
      | turn | agents |
      | 1    | source |
      | 2    | open   |

  Scenario Outline: What can be known before a run is an error before a run
    Given the ensemble "a.yaml":
      """
      name: known
      agents:
        - {name: source, script: s.rhai}
        - name: asked
          script: s.rhai
          dependencies: [{agent_name: source, condition: <condition>}]
      """
    And the Rhai script "s.rhai":
      """
      1
      """
    When I run `ensemble validate a.yaml`
    Then the exit code is 2
    And stdout says "<says>"

    Examples:
      | condition                  | says       |
      | ""                         | condition  |
      | "  "                       | condition  |
      | "contxt.x"                 | context    |
      | "lenn(context)"            | lenn       |
      | "output.x // 2"            | floor      |
      | "2 ** 3"                   | **         |
      | "'no'"                     | the string 'no' would count as true |
      | "output.x or ' False '"    | would count as true |

  Scenario Outline: What a model quotes it has not said
    Given the ensemble "a.yaml":
      """
      name: gate
      model_profiles:
        p: {provider: simulated, script: reply.rhai}
      agents:
        - name: judge
          model_profile: p
          <schema>
        - name: gate
          script: gate.rhai
          dependencies: [{agent_name: judge, condition: output.get('approved') == true}]
      """
    And the Rhai script "reply.rhai":
      """
      <before> + "{\"approved\": true}" + <after>
      """
    And the Rhai script "gate.rhai":
      """
      #{ open: true }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the result has "agent_execution_count.gate" = <times>

    Examples:
      | before                 | after                       | schema                                              | times |
      | ""                     | ""                          | description: none                                   | 1     |
      | "```json\\n"           | "\\n```\\n"                 | description: none                                   | 1     |
      | "I would have to say " | " now"                      | description: none                                   | 0     |
      | "It would be:\\n```\\n" | "\\n```\\nI do not say it." | description: none                                   | 0     |
      | "```json\\n"           | "\\n```\\nis what I deny."  | description: none                                   | 0     |
      | "It is:\\n```json\\n"  | "\\n```"                    | output_schema: {type: object, required: [approved]} | 1     |

  Scenario: A key that is not there is a warning, once for each condition and key
    Given the ensemble "a.yaml":
      """
      name: misspelt
      agents:
        - name: writer
          script: writer.rhai
          dependencies:
            - {agent_name: critic, feedback: true, condition: not output.aproved}
          conversation: {max_turns: 3}
        - name: critic
          script: critic.rhai
          depends_on: [writer]
          conversation: {max_turns: 3}
        - name: publisher
          script: writer.rhai
          dependencies:
            - {agent_name: critic, condition: "output.rounds == '3' or output?.ready or output.later is not None"}
      result:
        verdict: outputs.critic.verdict
        order: outputs.publisher?.order
      """
    And the Rhai script "writer.rhai":
      """
      #{ draft: execution }
      """
    And the Rhai script "critic.rhai":
      """
      #{ approved: execution > 1, notes: "none", rounds: execution }
      """
    When I run `ensemble run a.yaml --output json`
    Then the result has "warnings" = ["`output.aproved`: the output of `critic` has no `aproved`; it has `approved`, `notes`, `rounds`", "`output.rounds == '3'`: 1 is a number and '3' is a string, so they are never equal", "`outputs.critic.verdict`: the output of `critic` has no `verdict`; it has `approved`, `notes`, `rounds`"]
    And the result has "agent_execution_count.publisher" = 0

  Scenario: A member of nothing says what to write
    Given the ensemble "a.yaml":
      """
      name: nothing
      agents:
        - name: a
          script: a.rhai
        - name: b
          script: a.rhai
          dependencies:
            - {agent_name: a, condition: output.ok}
      result:
        order: outputs.b.order
      """
    And the Rhai script "a.rhai":
      """
      #{ ok: false }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "condition_failed" with exit code 1
    And stderr says "write `outputs.b?.order`"
    When I run `ensemble validate a.yaml`
    Then stdout says "W072"
    And stdout says "write `outputs.b?.order`"

  Scenario Outline: <condition> is <truth>, as in Python
    Given the ensemble "a.yaml":
      """
      name: comprehensions
      agents:
        - name: source
          script: source.rhai
        - name: asked
          script: asked.rhai
          dependencies:
            - agent_name: source
              condition: >-
                <condition>
      """
    And the Rhai script "source.rhai":
      """
      #{ list: [3, 1, 2], words: ["a", "bc"], map: #{ x: 1, y: 2 }, text: "hello" }
      """
    And the Rhai script "asked.rhai":
      """
      1
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the result has "agent_execution_count.asked" = <truth>

    Examples: slices and comprehensions
      | condition                                                        | truth |
      | output.list[1:] == [1, 2] and output.text[-3:] == 'llo'          | 1     |
      | history[-3:][0].agent_name == 'source'                           | 1     |
      | output.list + [4] == [3, 1, 2, 4]                                | 1     |
      | any(n > 2 for n in output.list)                                  | 1     |
      | all(n > 2 for n in output.list)                                  | 0     |
      | sum(len(w) for w in output.words) == 3                           | 1     |
      | [n * 2 for n in output.list if n > 1] == [6, 4]                  | 1     |
      | [k for k in output.map] == ['x', 'y']                            | 1     |
      | [w + str(n) for w in output.words for n in [1, 2] if n == 2] == ['a2', 'bc2'] | 1 |
      | any(h.agent_name == 'asked' for h in history)                    | 0     |
