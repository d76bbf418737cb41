Feature: Limits
  A limit is the outcome only if somebody would otherwise have run.

  Background:
    Given the Rhai script "tick.rhai":
      """
      #{ nr: execution }
      """

  Scenario: A run that ends by itself exactly at its limit has completed
    Given the ensemble "a.yaml":
      """
      name: exact
      agents:
        - name: ticker
          script: tick.rhai
          conversation: {max_turns: 3, trigger: every_turn}
      conversation_limits: {max_total_turns: 3, max_agent_executions: {ticker: 3}}
      """
    When I run `ensemble run a.yaml --fail-on-limit --output json`
    Then it ends as "completed" with exit code 0
    And the conversation took 3 turns

  Scenario: Twenty turns are the default
    Given the ensemble "a.yaml":
      """
      name: default
      agents:
        - name: ticker
          script: tick.rhai
          conversation: {max_turns: 99, trigger: every_turn}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "max_total_turns" with exit code 4
    And the conversation took 20 turns

  Scenario: A token budget ends the conversation after the turn that reached it
    Given the ensemble "a.yaml":
      """
      name: budget
      agents:
        - name: talker
          model_profile: p
          prompt: Talk.
          conversation: {max_turns: 9, trigger: every_turn, memory: none}
      conversation_limits: {max_total_tokens: <budget>}
      model_profiles:
        p: {provider: simulated, replies: [one two three four five]}
      """
    And in "a.yaml" `<budget>` becomes `1`
    When I run `ensemble run a.yaml --output json`
    Then it ends as "token_budget" with exit code 4
    And the conversation took 1 turn
    When I run `ensemble run a.yaml --fail-on-limit --output json`
    Then it ends as "token_budget" with exit code 4
    When in "a.yaml" `max_total_tokens: 1` becomes `max_total_tokens: 100000`
    And I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the conversation took 9 turns

  Scenario: The run's timeout interrupts what is under way; what had finished stays
    Given the ensemble "a.yaml":
      """
      name: slow
      agents:
        - name: quick
          script: tick.rhai
        - name: slow
          script: slow.sh
        - name: later
          script: tick.rhai
          depends_on: [slow]
      conversation_limits: {timeout_seconds: 1}
      """
    And the file "slow.sh":
      """
      sleep 60
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "timeout" with exit code 4
    And the agents ran in this order:
      | turn | agents |
      | 1    | quick  |
    And the conversation took 0 turns
    And the execution counts are:
      | agent | count |
      | quick | 1     |
      | slow  | 0     |
      | later | 0     |
    And the result has "final_state" = {}
    And it took less than 15 seconds
    # A fresh clock, and the attempt that was lost is not counted.
    When in "slow.sh" `sleep 60` becomes `echo "{\"attempt\": $ENSEMBLE_ATTEMPT}"`
    And I run `ensemble resume --last --output json`
    Then it ends as "completed" with exit code 0
    And the execution counts are:
      | agent | count |
      | quick | 1     |
      | slow  | 1     |
      | later | 1     |
    And execution 1 of "slow" gave "attempt" = 2
    And the final state has "quick.nr" = 1

  Scenario: What still runs at the turn's timeout has failed, and the conversation goes on
    Given the ensemble "a.yaml":
      """
      name: slow
      agents:
        - name: quick
          script: tick.rhai
        - name: slow
          script: slow.sh
          on_error: continue
        - name: medic
          script: tick.rhai
          dependencies: [{agent_name: slow, on: failure, condition: "output.kind == 'timeout'"}]
      conversation_limits: {turn_timeout_seconds: 0.5}
      """
    And the file "slow.sh":
      """
      sleep 60
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the agents ran in this order:
      | turn | agents      |
      | 1    | quick, slow |
      | 2    | medic       |
    And execution 1 of "slow" failed (timeout) saying "turn_timeout_seconds"
    And it took less than 15 seconds

  Scenario: All messages of a conversation share the budget, unless each message has its own
    Given the ensemble "a.yaml":
      """
      name: budget
      agents: [{name: talker, model_profile: p, prompt: Talk., conversation: {memory: none}}]
      conversation_limits: {max_total_tokens: 2}
      model_profiles:
        p: {provider: simulated, replies: [one two three four five]}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    When I run `ensemble continue --last more --output json`
    Then it ends as "token_budget" with exit code 4
    When in "a.yaml" `max_total_tokens: 2` becomes `max_total_tokens: 2, budget: message`
    And I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    When I run `ensemble continue --last more --output json`
    Then it ends as "completed" with exit code 0

  Scenario: Within the limits, the token budget comes before caps and turns
    Given the ensemble "a.yaml":
      """
      name: several
      agents:
        - name: talker
          model_profile: p
          prompt: Talk.
          conversation: {max_turns: 9, trigger: every_turn}
      conversation_limits: {max_total_tokens: 1, max_total_turns: 1, max_agent_executions: {talker: 1}}
      model_profiles:
        p: {provider: simulated, replies: [one two three four five]}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "token_budget" with exit code 4
    When in "a.yaml" `max_total_tokens: 1, ` becomes ``
    And I run `ensemble run a.yaml --output json`
    Then it ends as "max_agent_executions" with exit code 4
    When in "a.yaml" `, max_agent_executions: {talker: 1}` becomes ``
    And I run `ensemble run a.yaml --output json`
    Then it ends as "max_total_turns" with exit code 4

  Scenario: A run that ends by the default limit says so, and how to change it
    Given the ensemble "a.yaml":
      """
      name: endless
      agents:
        - name: it
          script: "true"
          conversation: {trigger: every_turn, max_turns: 100}
      """
    When I run `ensemble run a.yaml`
    Then the exit code is 4
    And stderr says "20 turns is the default limit; to change it, set `max_total_turns` in `conversation_limits`"

  Scenario: A run that ends by a limit of its file says nothing of a default
    Given the ensemble "a.yaml":
      """
      name: endless
      agents:
        - name: it
          script: "true"
          conversation: {trigger: every_turn, max_turns: 100}
      conversation_limits: {max_total_turns: 2}
      """
    When I run `ensemble run a.yaml`
    Then the exit code is 4
    And stderr does not say "default limit"
