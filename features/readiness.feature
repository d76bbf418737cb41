Feature: Which agents are ready
  No agent runs twice on the same information, and no agent runs before what it needs.

  Background:
    Given the Rhai script "say.rhai":
      """
      let out = #{ by: agent_name, nr: execution };
      out[agent_name + "_ran"] = execution;
      out
      """

  Scenario: Writer and reviewer take turns until the reviewer's output makes the condition false
    Given the ensemble "a.yaml":
      """
      name: essay
      agents:
        - name: writer
          script: say.rhai
          dependencies:
            - {agent_name: reviewer, feedback: true, condition: "not output.approved"}
          conversation: {max_turns: 9}
        - name: reviewer
          script: review.rhai
          dependencies: [{agent_name: writer}]
          conversation: {max_turns: 9}
      """
    And the Rhai script "review.rhai":
      """
      #{ approved: dependencies.writer.nr == 3 }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the agents ran in this order:
      | turn | agents   |
      | 1    | writer   |
      | 2    | reviewer |
      | 3    | writer   |
      | 4    | reviewer |
      | 5    | writer   |
      | 6    | reviewer |

  Scenario: Writer and reviewer take turns until a limit is met
    Given the ensemble "a.yaml":
      """
      name: essay
      agents:
        - name: writer
          script: say.rhai
          dependencies: [{agent_name: reviewer, feedback: true}]
          conversation: {max_turns: 2}
        - name: reviewer
          script: say.rhai
          dependencies: [{agent_name: writer}]
          conversation: {max_turns: 9}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the agents ran in this order:
      | turn | agents   |
      | 1    | writer   |
      | 2    | reviewer |
      | 3    | writer   |
      | 4    | reviewer |

  Scenario: A circle that nobody can enter is an error that names it
    Given the ensemble "a.yaml":
      """
      name: stuck
      agents:
        - name: free
          script: say.rhai
        - name: egg
          script: say.rhai
          depends_on: [hen, free]
        - name: hen
          script: say.rhai
          depends_on: [chick]
        - name: chick
          script: say.rhai
          dependencies: [{agent_name: egg}]
      """
    When I run `ensemble validate a.yaml`
    Then the exit code is 2
    And stdout says "egg"
    And stdout says "hen"
    And stdout says "chick"
    And stdout says "feedback: true"
    And stdout does not say "free →"
    When I run `ensemble run a.yaml`
    Then the exit code is 2
    And no run was started

  Scenario: An agent that depends on itself alone can never begin
    Given the ensemble "a.yaml":
      """
      name: stuck
      agents:
        - name: solo
          script: say.rhai
          depends_on: [solo]
      """
    When I run `ensemble validate a.yaml`
    Then the exit code is 2
    And stdout says "solo"

  Scenario: An agent that listens to itself by feedback goes on by itself
    Given the ensemble "a.yaml":
      """
      name: solo
      agents:
        - name: solo
          script: say.rhai
          dependencies: [{agent_name: solo, feedback: true, condition: "output.nr < 3"}]
          conversation: {max_turns: 9}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the execution counts are:
      | agent | count |
      | solo  | 3     |

  Scenario: One whom nobody can give news runs once, and validate points to every_turn
    Given the ensemble "a.yaml":
      """
      name: lonely
      agents:
        - name: ticker
          script: say.rhai
          conversation: {max_turns: 3}
      """
    When I run `ensemble validate a.yaml --format json`
    Then the exit code is 0
    And the findings are:
      | severity | place | message |
      | warning  | 5:31  | ticker  |
    And stdout says "trigger: every_turn"
    When I run `ensemble validate a.yaml --deny-warnings`
    Then the exit code is 2
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the execution counts are:
      | agent  | count |
      | ticker | 1     |
    When in "a.yaml" `{max_turns: 3}` becomes `{max_turns: 3, trigger: every_turn}`
    And I run `ensemble validate a.yaml --format json`
    Then the exit code is 0
    And there are no findings
    When I run `ensemble run a.yaml --output json`
    Then the execution counts are:
      | agent  | count |
      | ticker | 3     |
    And the conversation took 3 turns

  Scenario: Two who depend on nobody feed each other, and validate hints at it
    Given the ensemble "a.yaml":
      """
      name: pair
      agents:
        - name: one
          script: say.rhai
          conversation: {max_turns: 3}
        - name: two
          script: say.rhai
          conversation: {max_turns: 2}
      """
    When I run `ensemble validate a.yaml --format json --deny-warnings`
    Then the exit code is 0
    And stdout says "hint"
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the agents ran in this order:
      | turn | agents   |
      | 1    | one, two |
      | 2    | one, two |
      | 3    | one      |

  Scenario: A cap that ends the conversation no later than max_turns gets a hint
    Given the ensemble "a.yaml":
      """
      name: capped
      agents:
        - name: one
          script: say.rhai
          dependencies: [{agent_name: one, feedback: true}]
          conversation: {max_turns: 3}
      conversation_limits: {max_agent_executions: {one: 2}}
      """
    When I run `ensemble validate a.yaml --format json`
    Then the exit code is 0
    And the findings are:
      | severity | place | message |
      | hint     | 7:51  | one     |

  Scenario Outline: All of one group and one of the other
    Given the ensemble "a.yaml":
      """
      name: groups
      agents:
        - {name: a, script: say.rhai}
        - {name: b, script: say.rhai}
        - {name: c, script: say.rhai}
        - name: listener
          script: say.rhai
          dependencies:
            - {agent_name: a, condition: "input[0] == '1'"}
            - {agent_name: b, condition: "input[1] == '1'", requires_all: false}
            - {agent_name: c, condition: "input[2] == '1'", requires_all: false}
      """
    When I run `ensemble run a.yaml -i <input> --output json`
    Then it ends as "completed" with exit code 0
    And the result has "agent_execution_count.listener" = <runs>

    Examples:
      | input | runs |
      | 111   | 1    |
      | 110   | 1    |
      | 101   | 1    |
      | 100   | 0    |
      | 011   | 0    |
      | 000   | 0    |

  Scenario: News on an edge starts the agent at most max_executions times, the first execution included
    Given the ensemble "a.yaml":
      """
      name: edges
      agents:
        - name: source
          script: say.rhai
          conversation: {max_turns: 5, trigger: every_turn}
        - name: twice
          script: say.rhai
          dependencies: [{agent_name: source, max_executions: 2}]
          conversation: {max_turns: 9}
        - name: feedback_twice
          script: say.rhai
          dependencies: [{agent_name: source, max_executions: 2, feedback: true}]
          conversation: {max_turns: 9}
        - name: always
          script: say.rhai
          dependencies: [{agent_name: source}]
          conversation: {max_turns: 9}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the execution counts are:
      | agent          | count |
      | source         | 5     |
      | twice          | 2     |
      | feedback_twice | 3     |
      | always         | 5     |
    And the journal says that "twice" did not run in turn 4: {"reason": "limit_reached", "limit": "max_executions on source", "count": 2}

  Scenario: A start by every_turn without anything unseen counts on no edge
    Given the ensemble "a.yaml":
      """
      name: edges
      agents:
        - name: source
          script: say.rhai
          dependencies: [{agent_name: ticker, feedback: true, condition: "turn_count == 4"}]
          conversation: {max_turns: 2}
        - name: ticker
          script: say.rhai
          dependencies: [{agent_name: source, max_executions: 2}]
          conversation: {max_turns: 7, trigger: every_turn}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the agents ran in this order:
      | turn | agents         |
      | 1    | source         |
      | 2    | ticker         |
      | 3    | ticker         |
      | 4    | ticker         |
      | 5    | source, ticker |
      | 6    | ticker         |

  Scenario: All of a turn read the state at its start, and merge in the order of declaration
    Given the ensemble "a.yaml":
      """
      name: snapshot
      agents:
        - name: slow
          script: slow.sh
          conversation: {max_turns: 2}
        - name: fast
          script: fast.rhai
          conversation: {max_turns: 2}
      """
    And the file "slow.sh":
      """
      sleep 0.2
      echo '{"last": "slow", "from_slow": true}'
      """
    And the Rhai script "fast.rhai":
      """
      let out = #{ last: "fast" };
      out["turn_" + execution + "_sees"] = if "last" in context { context.last } else { "nothing" };
      out["turn_" + execution + "_sees_slow"] = "from_slow" in context;
      out
      """
    When I run `ensemble run a.yaml --output json`
    Then the agents ran in this order:
      | turn | agents     |
      | 1    | slow, fast |
      | 2    | slow, fast |
    And the final state has "last" = "fast"
    And the final state has "turn_1_sees" = "nothing"
    And the final state has "turn_2_sees" = "fast"
    And the final state has "turn_2_sees_slow" = true

  Scenario: A feedback condition is not asked before the first execution
    Given the ensemble "a.yaml":
      """
      name: loops
      agents:
        - name: one
          script: say.rhai
          dependencies: [{agent_name: two, feedback: true, condition: "output.nr < context.most"}]
          conversation: {max_turns: 5}
        - name: two
          script: say.rhai
          depends_on: [one]
          conversation: {max_turns: 5}
      """
    When I run `ensemble run a.yaml --set most=2 --output json`
    Then it ends as "completed" with exit code 0
    And the execution counts are:
      | agent | count |
      | one   | 2     |
      | two   | 2     |

  Scenario: A condition is asked only where its answer can matter
    Given the ensemble "a.yaml":
      """
      name: unasked
      agents:
        - name: source
          script: say.rhai
        - name: never
          script: say.rhai
          depends_on: [source]
          dependencies:
            - {agent_name: late, condition: "1 / 0 == 1"}
        - name: late
          script: say.rhai
          dependencies: [{agent_name: source, condition: "false"}]
        - name: any
          script: say.rhai
          dependencies:
            - {agent_name: source, requires_all: false}
            - {agent_name: source, requires_all: false, condition: "1 / 0 == 1"}
        - name: stops_early
          script: say.rhai
          dependencies:
            - {agent_name: source, condition: "false"}
            - {agent_name: source, condition: "1 / 0 == 1"}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the agents ran in this order:
      | turn | agents |
      | 1    | source |
      | 2    | any    |

  Scenario: A condition of an agent at its max_turns is not asked
    Given the ensemble "a.yaml":
      """
      name: unasked
      agents:
        - name: source
          script: say.rhai
          conversation: {max_turns: 3, trigger: every_turn}
        - name: once
          script: say.rhai
          dependencies: [{agent_name: source, condition: "output.nr == 1 or 1 / 0 == 1"}]
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the execution counts are:
      | agent  | count |
      | source | 3     |
      | once   | 1     |

  Scenario: An any-of edge that readiness did not need is asked at the start if its count depends on it
    Given the ensemble "a.yaml":
      """
      name: counted
      agents:
        - {name: source, script: say.rhai}
        - name: listener
          script: say.rhai
          dependencies:
            - {agent_name: source, requires_all: false}
            - {agent_name: source, requires_all: false, max_executions: 1, condition: "1 / 0 == 1"}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "condition_failed" with exit code 1
    And stderr says "a.yaml:8:"

  Scenario: The journal says why an agent did not run
    Given the ensemble "a.yaml":
      """
      name: reasons
      agents:
        - name: source
          script: say.rhai
          conversation: {max_turns: 4, trigger: every_turn}
        - name: closed
          script: say.rhai
          dependencies: [{agent_name: source, condition: "context.door == 'open'"}]
        - name: waits
          script: say.rhai
          depends_on: [closed]
        - name: once
          script: say.rhai
          depends_on: [source]
        - name: sated
          script: say.rhai
          depends_on: [once]
          conversation: {max_turns: 3}
      """
    When I run `ensemble run a.yaml --set door=shut --output json`
    Then it ends as "completed" with exit code 0
    And the journal says that "waits" did not run in turn 1: {"reason": "waiting_for", "agents": ["closed"]}
    And the journal says that "closed" did not run in turn 2: {"reason": "condition_false", "dependency": "source", "condition": "context.door == 'open'", "values": [{"expression": "context.door", "value": "shut"}]}
    And the journal says that "once" did not run in turn 3: {"reason": "limit_reached", "limit": "max_turns", "count": 1}
    And "closed" never ran: condition false on source: context.door == 'open' (context.door = "shut")
    When I run `ensemble run a.yaml --set door=shut -v`
    Then stderr says "– closed: condition false on source"
    And stderr says "– waits: waiting for closed"

  Scenario: The order of finishing does not matter, requested agents go first under parallel_agent_limit
    Given the ensemble "a.yaml":
      """
      name: narrow
      agents:
        - name: boss
          script: boss.rhai
          conversation: {triggers_conversation: true}
        - {name: ready, script: say.rhai, depends_on: [boss]}
        - {name: low, script: say.rhai, dependencies: [{agent_name: boss, condition: "false"}]}
        - {name: high, script: say.rhai, dependencies: [{agent_name: boss, condition: "false"}]}
      conversation_limits: {parallel_agent_limit: 1}
      """
    And the Rhai script "boss.rhai":
      """
      #{ agent_requests: [#{ target_agent: "low", priority: -1 }, #{ target_agent: "high", priority: 9 }] }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the agents ran in this order:
      | turn | agents           |
      | 1    | boss             |
      | 2    | ready, low, high |
    And the executions started in this order: boss, high, low, ready

  Scenario: An unseen output is no news on an edge that does not hold
    Given the ensemble "a.yaml":
      """
      name: nonews
      agents:
        - {name: once, script: say.rhai}
        - name: often
          script: say.rhai
          conversation: {max_turns: 4, trigger: every_turn}
        - name: listener
          script: say.rhai
          dependencies:
            - {agent_name: once, requires_all: false}
            - {agent_name: often, requires_all: false, condition: "output.nr == 3"}
          conversation: {max_turns: 9}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the agents ran in this order:
      | turn | agents          |
      | 1    | once, often     |
      | 2    | often, listener |
      | 3    | often           |
      | 4    | often, listener |
    And the journal says that "listener" did not run in turn 3: {"reason": "condition_false", "dependency": "often", "condition": "output.nr == 3", "values": [{"expression": "output.nr", "value": 2}]}

  Scenario: A join in a loop reads what belongs together
    Given the ensemble "a.yaml":
      """
      name: join
      agents:
        - name: writer
          script: say.rhai
          dependencies: [{agent_name: judge, feedback: true}]
          conversation: {max_turns: 2}
        - name: critic
          script: say.rhai
          depends_on: [writer]
          conversation: {max_turns: 9}
        - name: judge
          script: pair.rhai
          depends_on: [writer, critic]
          conversation: {max_turns: 9}
      """
    And the Rhai script "pair.rhai":
      """
      #{ draft: dependencies.writer.nr, critique: dependencies.critic.nr }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the agents ran in this order:
      | turn | agents |
      | 1    | writer |
      | 2    | critic |
      | 3    | judge  |
      | 4    | writer |
      | 5    | critic |
      | 6    | judge  |
    And execution 2 of "judge" gave "draft" = 2
    And execution 2 of "judge" gave "critique" = 2

  Scenario: The reason says for whom a ready agent waits
    Given the ensemble "a.yaml":
      """
      name: join
      agents:
        - name: writer
          script: say.rhai
          dependencies: [{agent_name: judge, feedback: true}]
          conversation: {max_turns: 2}
        - name: critic
          script: say.rhai
          depends_on: [writer]
          conversation: {max_turns: 9}
        - name: judge
          script: say.rhai
          depends_on: [writer, critic]
          conversation: {max_turns: 9}
      """
    When I run `ensemble run a.yaml -v`
    Then the exit code is 0
    And stderr says "judge: waits for critic, which is about to answer again"

  Scenario: `wait_for: nothing` takes what there is
    Given the ensemble "a.yaml":
      """
      name: join
      agents:
        - name: writer
          script: say.rhai
          dependencies: [{agent_name: judge, feedback: true}]
          conversation: {max_turns: 2}
        - name: critic
          script: say.rhai
          depends_on: [writer]
          conversation: {max_turns: 9}
        - name: judge
          script: pair.rhai
          dependencies: [{agent_name: writer}, {agent_name: critic, wait_for: nothing}]
          conversation: {max_turns: 2}
      """
    And the Rhai script "pair.rhai":
      """
      #{ draft: dependencies.writer.nr, critique: dependencies.critic.nr }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the agents ran in this order:
      | turn | agents        |
      | 1    | writer        |
      | 2    | critic        |
      | 3    | judge         |
      | 4    | writer        |
      | 5    | critic, judge |
    And execution 2 of "judge" gave "draft" = 2
    And execution 2 of "judge" gave "critique" = 1

  Scenario Outline: `wait_for: settled` waits for the end of the loop, approved or exhausted
    Given the ensemble "a.yaml":
      """
      name: essay
      agents:
        - name: writer
          script: say.rhai
          dependencies: [{agent_name: reviewer, feedback: true, condition: "not output.approved"}]
          conversation: {max_turns: 3}
        - name: reviewer
          script: review.rhai
          depends_on: [writer]
          conversation: {max_turns: 3}
        - name: publisher
          script: pair.rhai
          dependencies: [{agent_name: reviewer, wait_for: settled}]
      """
    And the Rhai script "review.rhai":
      """
      #{ approved: dependencies.writer.nr == <approved>, nr: execution }
      """
    And the Rhai script "pair.rhai":
      """
      #{ review: dependencies.reviewer.nr }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "publisher" gave "review" = <review>
    And the execution counts are:
      | agent     | count    |
      | writer    | <review> |
      | reviewer  | <review> |
      | publisher | 1        |

    Examples:
      | approved | review |
      | 2        | 2      |
      | 9        | 3      |

  Scenario: `wait_for` beside `requires_all: false` is an error
    Given the ensemble "a.yaml":
      """
      name: either
      agents:
        - {name: a, script: say.rhai}
        - name: b
          script: say.rhai
          dependencies: [{agent_name: a, requires_all: false, wait_for: settled}]
      """
    When I run `ensemble validate a.yaml`
    Then the exit code is 2
    And stdout says "E039"
