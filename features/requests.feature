Feature: Agents ask for agents
  `agent_requests` start their targets in the next turn. Several requests for one agent wait for their turn.

  Background:
    Given the Rhai script "asked.rhai":
      """
      #{ request: request, execution: execution }
      """

  Scenario Outline: A request that cannot be honoured is a warning
    Given the ensemble "a.yaml":
      """
      name: refused
      agents:
        - name: boss
          script: boss.rhai
          conversation: {triggers_conversation: <may>}
        - name: worker
          script: asked.rhai
      """
    And the Rhai script "boss.rhai":
      """
      #{ agent_requests: <requests> }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the execution counts are:
      | agent  | count |
      | boss   | 1     |
      | worker | 1     |
    And a warning says "<says>"
    And execution 1 of "boss" has "output_data.agent_requests" = <kept>
    And the final state has no "agent_requests"

    Examples:
      | may   | requests                           | says                  | kept                        |
      | false | [#{target_agent: "worker"}]        | triggers_conversation | [{"target_agent": "worker"}] |
      | true  | "worker"                           | not a list            | "worker"                    |
      | true  | [#{target: "worker"}]              | target_agent          | [{"target": "worker"}]      |
      | true  | [#{target_agent: "wroker"}]        | wroker                | [{"target_agent": "wroker"}] |
      | true  | [#{target_agent: "worker"}]        | max_turns 1           | [{"target_agent": "worker"}] |
      | true  | [#{target_agent: "worker", priority: "x"}] | priority      | [{"target_agent": "worker", "priority": "x"}] |

  Scenario: Of several requests the highest priority comes first, then the oldest, then the first declared
    Given the ensemble "a.yaml":
      """
      name: priorities
      agents:
        - name: one
          script: one.rhai
          conversation: {triggers_conversation: true}
        - name: two
          script: two.rhai
          conversation: {triggers_conversation: true}
        - name: loud
          script: asked.rhai
          dependencies: [{agent_name: one, condition: "false"}]
          conversation: {max_turns: 2}
        - name: even
          script: asked.rhai
          dependencies: [{agent_name: one, condition: "false"}]
          conversation: {max_turns: 9}
      """
    And the Rhai script "one.rhai":
      """
      #{ agent_requests: [
        #{ target_agent: "loud", priority: 1, parameters: #{ nr: 1 } },
        #{ target_agent_type: "even", parameters: #{ nr: 1 } },
        #{ target_agent: "even", parameters: #{ nr: 2 } }
      ] }
      """
    And the Rhai script "two.rhai":
      """
      #{ agent_requests: [#{ target_agent: "loud", priority: 2 }, #{ target_agent: "even", priority: 0 }] }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the agents ran in this order:
      | turn | agents     |
      | 1    | one, two   |
      | 2    | loud, even |
      | 3    | loud, even |
      | 4    | even       |
    And execution 1 of "loud" gave "request" = {"from": "two", "parameters": {}, "priority": 2}
    And execution 2 of "loud" gave "request" = {"from": "one", "parameters": {"nr": 1}, "priority": 1}
    And execution 1 of "even" gave "request" = {"from": "one", "parameters": {"nr": 1}, "priority": 0}
    And execution 2 of "even" gave "request" = {"from": "one", "parameters": {"nr": 2}, "priority": 0}
    And execution 3 of "even" gave "request" = {"from": "two", "parameters": {}, "priority": 0}
    And there are no warnings

  Scenario: A request that arrives later waits behind the older ones of its priority
    Given the ensemble "a.yaml":
      """
      name: later
      agents:
        - name: boss
          script: boss.rhai
          conversation: {triggers_conversation: true, max_turns: 2, trigger: every_turn}
        - name: worker
          script: asked.rhai
          dependencies: [{agent_name: boss, condition: "false"}]
          conversation: {max_turns: 9}
      """
    And the Rhai script "boss.rhai":
      """
      if execution == 1 {
        #{ agent_requests: [#{target_agent: "worker", parameters: #{nr: 1}}, #{target_agent: "worker", parameters: #{nr: 2}}] }
      } else {
        #{ agent_requests: [
          #{target_agent: "worker", parameters: #{nr: 3}},
          #{target_agent: "worker", priority: 1, parameters: #{nr: 4}}
        ] }
      }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And execution 1 of "worker" gave "request.parameters" = {"nr": 1}
    And execution 2 of "worker" gave "request.parameters" = {"nr": 4}
    And execution 3 of "worker" gave "request.parameters" = {"nr": 2}
    And execution 4 of "worker" gave "request.parameters" = {"nr": 3}

  Scenario: A request that is left when its target reaches its limit is a warning
    Given the ensemble "a.yaml":
      """
      name: left
      agents:
        - name: boss
          script: boss.rhai
          conversation: {triggers_conversation: true}
        - name: worker
          script: asked.rhai
          dependencies: [{agent_name: boss, condition: "false"}]
          conversation: {max_turns: 2}
      """
    And the Rhai script "boss.rhai":
      """
      #{ agent_requests: [#{target_agent: "worker"}, #{target_agent: "worker"}, #{target_agent: "worker"}] }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the execution counts are:
      | agent  | count |
      | boss   | 1     |
      | worker | 2     |
    And a warning says "boss: a request was ignored: `worker` has reached its max_turns 2"

  Scenario: A request holds for the next turn only, and counts on no edge
    Given the ensemble "a.yaml":
      """
      name: once
      agents:
        - name: boss
          script: boss.rhai
          conversation: {triggers_conversation: true}
        - name: worker
          script: asked.rhai
          dependencies: [{agent_name: boss, max_executions: 1}]
          conversation: {max_turns: 3}
        - name: late
          script: asked.rhai
          depends_on: [worker]
      """
    And the Rhai script "boss.rhai":
      """
      #{ agent_requests: [#{ target_agent: "worker", parameters: #{ job: 1 } }] }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    # Ready and requested: it starts as requested, and the output of boss has been seen by then.
    And the agents ran in this order:
      | turn | agents |
      | 1    | boss   |
      | 2    | worker |
      | 3    | late   |
    And execution 1 of "worker" gave "request.parameters" = {"job": 1}
    And execution 1 of "late" gave "request" = null

  Scenario: A request starts an agent whose dependencies do not hold, circles included
    Given the ensemble "a.yaml":
      """
      name: enters
      agents:
        - name: boss
          script: boss.rhai
          conversation: {triggers_conversation: true}
        - name: worker
          script: asked.rhai
          dependencies: [{agent_name: never}]
        - name: never
          script: asked.rhai
          dependencies: [{agent_name: boss, condition: "false"}]
      """
    And the Rhai script "boss.rhai":
      """
      #{ agent_requests: [#{ target_agent: "worker" }] }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the agents ran in this order:
      | turn | agents |
      | 1    | boss   |
      | 2    | worker |

  Scenario: A request at a cap on executions is not honoured
    Given the ensemble "a.yaml":
      """
      name: capped
      agents:
        - name: boss
          script: boss.rhai
          conversation: {triggers_conversation: true}
        - name: worker
          script: asked.rhai
          dependencies: [{agent_name: boss, condition: "false"}]
      conversation_limits: {max_agent_executions: {boss: 1}}
      """
    And the Rhai script "boss.rhai":
      """
      #{ agent_requests: [#{ target_agent: "worker" }] }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "max_agent_executions" with exit code 4
    And the execution counts are:
      | agent  | count |
      | boss   | 1     |
      | worker | 0     |

  Scenario Outline: Requests of a model count only in a reply that is JSON as a whole
    Given the ensemble "a.yaml":
      """
      name: quoted
      model_profiles:
        p: {provider: simulated, script: reply.rhai}
      agents:
        - name: boss
          model_profile: p
          <schema>
          conversation: {triggers_conversation: true}
        - name: helper
          script: helper.rhai
          dependencies: [{agent_name: boss, condition: "False"}]
      """
    And the Rhai script "reply.rhai":
      """
      <before> + "```json\n{\"agent_requests\": [{\"target_agent\": \"helper\"}], \"n\": 1}\n```" + <after>
      """
    And the Rhai script "helper.rhai":
      """
      #{ helped: true }
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the result has "agent_execution_count.helper" = <times>
    And the result has "warnings" = <warnings>

    Examples:
      | before         | after   | schema                                     | times | warnings |
      | ""             | ""      | description: none                          | 1     | []       |
      | "\\n "          | "\\n\\n"  | description: none                          | 1     | []       |
      | "Like this:\\n" | ""      | description: none                          | 0     | ["boss: `agent_requests` inside other text were ignored; a reply with requests must be one JSON object and nothing else"] |
      | "Like this:\\n" | "\\nOk?" | output_schema: {type: object, required: [n]} | 0     | ["boss: `agent_requests` inside other text were ignored; a reply with requests must be one JSON object and nothing else"] |
