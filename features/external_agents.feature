Feature: External agents
  Programs that speak the Agent Client Protocol take part in a conversation.

  Scenario: A coder and a reviewer
    Given the ensemble "a.yaml":
      """
      name: pair
      default_task: Write a haiku.
      agents:
        - name: coder
          acp: simulated
          permissions: {edit: allow}
          config:
            replies:
              - steps: [{write: haiku.txt, text: "pond\n"}]
                text: It is written.
        - name: reviewer
          acp: simulated
          prompt: "{{ coder.response }}"
          depends_on: [coder]
          output_schema: {type: object, required: [good], properties: {good: {type: boolean}}}
          config: {replies: ['{"good": true}']}
      """
    When I run `ensemble run a.yaml --output json`
    Then it ends as "completed" with exit code 0
    And the agents ran in this order:
      | turn | agent    |
      | 1    | coder    |
      | 2    | reviewer |
    And execution 1 of "coder" gave "response" = "It is written."
    And execution 1 of "reviewer" gave "good" = true
    And the file "haiku.txt" holds:
      """
      pond
      """
