Feature: Agents that still had work when they reached their own limits

  Background:
    Given the ensemble "loop.yaml":
      """
      name: loop
      agents:
        - name: writer
          script: write.rhai
          dependencies: [{agent_name: reviewer, feedback: true, condition: not output.approved}]
          conversation: {max_turns: 3}
        - name: reviewer
          script: review.rhai
          depends_on: [writer]
          conversation: {max_turns: 3}
      """
    And the Rhai script "write.rhai":
      """
      `draft ${execution}`
      """

  Scenario: A loop that was not approved names its agent, and fails only if it is asked to
    Given the Rhai script "review.rhai":
      """
      #{ approved: false }
      """
    When I run `ensemble run loop.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the result has "success" = true
    And the result has "exhausted" = [{"agent": "writer", "limit": "max_turns", "count": 3}]
    And the result has "detail" = "completed; `writer` reached `max_turns: 3` while it still had work"
    When I run `ensemble run loop.yaml --fail-on-limit --output json`
    Then it ends as "completed" with exit code 4
    And the result has "success" = false

  Scenario: A loop that was approved at its limit has no work left
    Given the Rhai script "review.rhai":
      """
      #{ approved: execution == 3 }
      """
    When I run `ensemble run loop.yaml --fail-on-limit --output json`
    Then it ends as "completed" with exit code 0
    And the result has "exhausted" = []

  Scenario: An exhausted agent of a nested run is a warning
    Given the Rhai script "review.rhai":
      """
      #{ approved: false }
      """
    And the ensemble "outer.yaml":
      """
      name: outer
      agents: [{name: inner, ensemble: loop.yaml}]
      """
    When I run `ensemble run outer.yaml --fail-on-limit --output json`
    Then it ends as "completed" with exit code 0
    And the result has "exhausted" = []
    And the result has "warnings" = ["inner: `writer` reached `max_turns: 3` while it still had work"]

  Scenario: Only a request starts an agent with `trigger: request`
    Given the ensemble "team.yaml":
      """
      name: team
      agents:
        - name: boss
          script: boss.rhai
          conversation: {triggers_conversation: true}
        - name: helper
          script: helper.rhai
          depends_on: [boss]
          conversation: {trigger: request}
      """
    And the Rhai script "helper.rhai":
      """
      request.from
      """
    And the Rhai script "boss.rhai":
      """
      #{ agent_requests: [] }
      """
    When I run `ensemble run team.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the result has "not_run" = [{"agent": "helper", "reason": "it runs only on request"}]
    Given the Rhai script "boss.rhai":
      """
      #{ agent_requests: [#{ target_agent: "helper" }, #{ target_agent: "helper" }] }
      """
    When I run `ensemble run team.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the result has "exhausted" = [{"agent": "helper", "limit": "max_turns", "count": 1}]
