//! The codes of everything that can be wrong with a file, each with a title of one line.
//!
//! Codes are stable: a code keeps its meaning, and the code of a rule that is gone is not used again.
//! `E00x` is about YAML, `E01x` about keys and values, `E02x` and `E03x` about agents, edges and profiles,
//! `E04x` about the graph. `W` warns, `H` hints.

use crate::diagnostic::Code;

macro_rules! codes {
    ($($name:ident = $code:literal, $title:literal;)*) => {
        $(#[doc = $title] pub const $name: Code = Code($code);)*

        /// Every code with its title, in order.
        pub const ALL: &[(Code, &str)] = &[$(($name, $title)),*];
    };
}

codes! {
    SYNTAX = "E001", "The text is not YAML.";
    TOO_BIG = "E002", "The text is too large, too deep, or its aliases expand to too much.";
    DOCUMENTS = "E003", "A file holds exactly one document.";
    DUPLICATE_KEY = "E004", "A key stands twice in one map.";
    ALIAS = "E005", "An alias or a merge key leads nowhere, or to itself.";
    TAG = "E006", "A tag is not one of YAML's own, or does not fit its value.";
    KEY_NOT_TEXT = "E007", "A key is not text.";
    NOT_JSON = "E008", "A value has no form in JSON.";
    UNKNOWN_KEY = "E010", "A key is unknown here.";
    FOREIGN_KEY = "E011", "A key belongs to llm-orc's ensembles, not to this language.";
    MISSING = "E013", "Something required is missing.";
    WRONG_TYPE = "E014", "A value has the wrong type.";
    OUT_OF_RANGE = "E015", "A number is outside its range.";
    NOT_A_CHOICE = "E016", "A word is not one of the allowed ones.";
    BAD_NAME = "E017", "A text is not a valid name.";
    EMPTY = "E018", "A text or a list is empty that must not be.";
    TWO_SPELLINGS = "E019", "One thing is given under two keys.";
    DUPLICATE_AGENT = "E020", "Two agents have the same name.";
    UNKNOWN_AGENT = "E021", "An agent is named that the ensemble does not have.";
    NO_KIND = "E022", "An agent does not say what it runs.";
    TWO_KINDS = "E023", "An agent says twice what it runs.";
    KIND_MISMATCH = "E024", "`type` contradicts the agent's fields.";
    NOT_FOR_KIND = "E025", "A field does not belong to this kind of agent or tool.";
    DEPENDENCY_TWICE = "E026", "A dependency is given twice.";
    STATE_KEY_TAKEN = "E027", "A `state_key` is another agent's name.";
    BLANK_CONDITION = "E028", "A condition is blank.";
    BAD_SCHEMA = "E029", "A JSON Schema is not valid.";
    SIMULATED = "E030", "What a simulated model answers is missing, doubled or out of place.";
    FALLBACK_CIRCLE = "E031", "Profiles fall back on each other in a circle.";
    DEFAULT_NOT_A_CHOICE = "E032", "The default answer is not one of the choices.";
    BAD_MODEL = "E033", "A `model` does not read `provider/model`.";
    UNKNOWN_TOOL = "E034", "An agent uses a tool that the ensemble does not have.";
    TOOL_KIND = "E035", "A tool does not say, or says twice, who performs it.";
    BAD_ADDRESS = "E036", "A `base_url` is not an address, or holds credentials.";
    KEY_IN_FILE = "E037", "A header that carries a key stands in the file in plain text.";
    DEAD_CIRCLE = "E040", "Agents wait for each other in a circle that none can enter.";
    CONDITION = "E041", "A condition does not compile.";
    CONDITION_AGENT = "E042", "A condition names an agent that the ensemble does not have.";
    TEMPLATE = "E043", "A template does not compile.";
    TEMPLATE_NAME = "E044", "A template uses a variable that it cannot have.";
    TOOL_CIRCLE = "E045", "Agents are tools of each other in a circle.";
    NOT_READY = "E060", "An agent cannot be made ready to run here.";
    CONDITION_FAILED = "E070", "A condition has no answer.";
    UNKNOWN_PROFILE = "W001", "A model profile is not known here.";
    NEVER_NEWS = "W002", "An agent may run several times and can never have news.";
    NO_SCRIPT = "W003", "A script, an ensemble or a program that is named is not there, or cannot be used.";
    ALLOWANCE = "W004", "A comment that allows findings has no reason, no known code, or nothing to allow.";
    NEVER_RUNS = "W010", "An agent can never run, because a condition on its way is never true.";
    TOO_LATE = "W011", "A limit ends the conversation before an agent can run.";
    CONSTANT_CONDITION = "W012", "A condition is always true, never true, or never has an answer.";
    UNWRITTEN_KEY = "W013", "A condition reads a key that nobody writes.";
    SECRET = "W014", "Something in the file looks like a secret.";
    FEEDBACK_ONCE = "W015", "A `feedback` dependency has no effect, because its agent runs only once.";
    FALLBACK_AROUND = "W016", "Profiles of several files fall back on each other in a circle.";
    FEED_EACH_OTHER = "H001", "Agents without dependencies start each other.";
    CAP_ENDS_RUN = "H002", "A cap ends the conversation no later than the agent's own limit would hold it.";
    SHARED_STATE_KEY = "H003", "Agents store their outputs under one key.";
    UNUSED_PROFILE = "H010", "Nobody uses a model profile of the file.";
    IDLE_TURNS = "H011", "An agent that waits for nobody can never reach its `max_turns`.";
    IDLE_EXECUTIONS = "H012", "A dependency's `max_executions` can never be reached.";
    SHARED_KEY = "H013", "A condition reads a key of the context that several agents write.";
    UNUSED_TOOL = "H020", "No agent uses a tool of the file.";
}

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn codes_are_unique_and_in_order() {
        let codes: Vec<&str> = ALL.iter().map(|(code, _)| code.0).collect();
        for class in ['E', 'W', 'H'] {
            let of_class = codes.iter().filter(|code| code.starts_with(class));
            assert!(of_class.is_sorted_by(|a, b| a < b), "{class}: {codes:?}");
        }
    }
}
