//! The codes of all findings, each with a title of one line and the file of its explanation.
//!
//! Codes are stable: a code keeps its meaning, and the code of a removed rule is not used again.
//! `E00x` are about YAML, `E01x` about keys and values, `E02x` and `E03x` about agents, edges and profiles,
//! `E04x` about the graph. `W` are warnings, `H` are hints.

use crate::diagnostic::FindingCode;

macro_rules! codes {
    ($($name:ident = $code:literal, $title:literal;)*) => {
        $(#[doc = $title] pub const $name: FindingCode = FindingCode($code);)*

        /// Every code with its title, in order.
        pub const ALL: &[(FindingCode, &str)] = &[$(($name, $title)),*];

        /// The explanation of every code, in Markdown.
        pub(super) const EXPLANATIONS: &[(FindingCode, &str)] =
            &[$(($name, include_str!(concat!("explanations/", $code, ".md")))),*];
    };
}

codes! {
    SYNTAX = "E001", "The file is not valid YAML.";
    TOO_BIG = "E002", "The file is too large, is nested too deeply, or its aliases expand to too many values.";
    DOCUMENTS = "E003", "A file must contain exactly one YAML document.";
    DUPLICATE_KEY = "E004", "A map has a duplicate key.";
    ALIAS = "E005", "An alias or a merge key is not valid.";
    TAG = "E006", "A tag is not supported, or does not match its value.";
    KEY_NOT_TEXT = "E007", "A key is not a string.";
    NOT_JSON = "E008", "A value cannot be represented in JSON.";
    UNKNOWN_KEY = "E010", "A key is unknown.";
    FOREIGN_KEY = "E011", "A key belongs to the language of llm-orc, not to this language.";
    MISSING = "E013", "A required key is missing.";
    WRONG_TYPE = "E014", "A value has the wrong type.";
    OUT_OF_RANGE = "E015", "A number is outside its range.";
    NOT_A_CHOICE = "E016", "A value is not one of the allowed values.";
    BAD_NAME = "E017", "A name is not valid.";
    EMPTY = "E018", "A string or a list must not be empty.";
    TWO_SPELLINGS = "E019", "Two spellings of the same key are used.";
    DUPLICATE_AGENT = "E020", "Two agents have the same name.";
    UNKNOWN_AGENT = "E021", "There is no agent with this name.";
    NO_KIND = "E022", "An agent has nothing to run.";
    TWO_KINDS = "E023", "An agent has more than one thing to run.";
    KIND_MISMATCH = "E024", "`type` contradicts another key of the agent.";
    NOT_FOR_KIND = "E025", "A key is not allowed for this type of agent or tool.";
    DEPENDENCY_TWICE = "E026", "An agent has the same dependency twice.";
    STATE_KEY_TAKEN = "E027", "A `state_key` is the name of another agent.";
    BLANK_CONDITION = "E028", "A condition is blank.";
    BAD_SCHEMA = "E029", "A JSON Schema is not valid.";
    SIMULATED = "E030", "The replies of a simulated model are missing, duplicated or misplaced.";
    FALLBACK_CIRCLE = "E031", "The fallbacks of model profiles form a cycle.";
    DEFAULT_NOT_A_CHOICE = "E032", "The default answer is not one of the choices.";
    BAD_MODEL = "E033", "A `model` does not have the form `provider/model`.";
    UNKNOWN_TOOL = "E034", "An agent or a test case names a tool that is not defined.";
    TOOL_KIND = "E035", "A tool has no implementation, or more than one.";
    BAD_ADDRESS = "E036", "A `base_url` is not an address, or contains credentials.";
    KEY_IN_FILE = "E037", "A header contains a key in plain text.";
    INPUT_DEFAULT = "E038", "The default of an input does not match its schema.";
    WAIT_FOR_ANY_OF = "E039", "A dependency that is not required has a `wait_for`.";
    DEAD_CIRCLE = "E040", "Agents wait for each other in a cycle, so none of them can run first.";
    CONDITION = "E041", "A condition, or an expression of the result, does not compile.";
    CONDITION_AGENT = "E042", "A condition, or an expression of the result, names an agent that does not exist.";
    TEMPLATE = "E043", "A template does not compile.";
    TEMPLATE_NAME = "E044", "A template uses an unknown variable.";
    TOOL_CIRCLE = "E045", "Agents call each other as tools in a cycle.";
    UNKNOWN_INPUT = "E046", "A condition or a template reads an input that is not declared.";
    BROKEN_SCRIPT = "E047", "A Rhai script does not compile.";
    BROKEN_ENSEMBLE = "E048", "An ensemble that an agent or a tool names cannot be run.";
    ITEM_NAME = "E049", "The item of a `for_each` has a name that is in use.";
    AT_LEAST_ALONE = "E050", "A `for_each` whose first failed part fails the execution has an `at_least`.";
    OPTION_OF_PROGRAM = "E051", "The `options` of a model profile have a key that the program itself sets.";
    NO_ATTACHMENT = "E057", "An attachment of an agent does not exist.";
    NOT_READY = "E060", "An agent cannot run on this machine.";
    UNENCRYPTED = "E061", "A key would be sent over `http://` to another machine.";
    TEMPLATE_DEPTH = "E065", "A template is nested too deeply.";
    BAD_SANDBOX = "E066", "A limit of a `sandbox` is not valid.";
    NO_SANDBOX = "E067", "A `sandbox` cannot be enforced on this machine.";
    CONDITION_FAILED = "E070", "A condition, or an expression of the result, could not be evaluated.";
    UNKNOWN_FILTER = "E071", "A template uses a filter or a test that does not exist.";
    SCRIPT_SYNTAX = "E073", "A script has a syntax error.";
    UNREADABLE = "E076", "A file cannot be read.";
    BAD_LEVEL = "E078", "The configuration sets the level of an unknown code, or lowers the level of an error.";
    BAD_PATTERN = "E079", "A pattern in the configuration is not valid.";
    NO_ENSEMBLE_TO_TEST = "E080", "The ensemble of a test file is missing, or has errors.";
    CASE_TWICE = "E081", "Two cases of a test file have the same name.";
    BAD_STUB = "E082", "A stub of a test file does not have exactly one result, or its agent cannot have a stub.";
    NO_RECORD = "E083", "The recorded run of a case cannot be used.";
    UNKNOWN_ACP = "E086", "There is no external agent with this name.";
    NOT_A_SERVER = "E090", "The `tool` of an agent is not a tool of an MCP server.";
    NO_TOOL_NAME = "E091", "The `tool` of an agent does not name a tool of a server.";
    DENIED_TOOL = "E092", "An agent calls a tool that the ensemble denies.";
    NOT_FOR_PROGRAM = "E093", "An external agent cannot use this tool.";
    SCRIPT_FAILS = "E103", "Every execution of a Rhai script fails, because it calls a function that does not exist.";
    MISSING_SCRIPT_FILE = "E106", "The file of a script does not exist or cannot be used.";
    TEMPLATE_PLACE = "E107", "A `script`, `cwd` or `env` contains a template.";
    NO_PROCESS = "E108", "An agent has `args` or `stdin`, and no process reads them.";
    BUDGET_WITHOUT_PRICE = "E109", "A run has a `max_cost`, and no model has a price.";
    UNKNOWN_PROFILE = "W001", "A model profile is unknown.";
    NEVER_NEWS = "W002", "An agent has `max_turns` above 1, but nothing can start it again.";
    NO_SCRIPT = "W003", "A script, an ensemble or a program is missing or cannot be used.";
    ALLOWANCE = "W004", "An `allow` comment has no reason, no known code, or no finding to suppress.";
    NEVER_RUNS = "W010", "An agent can never run, because a condition before it is never true.";
    TOO_LATE = "W011", "A limit ends the conversation before an agent can run.";
    CONSTANT_CONDITION = "W012", "A condition is always true, is never true, or can never be evaluated.";
    UNWRITTEN_KEY = "W013", "A condition or an expression reads a key that is never written.";
    SECRET = "W014", "A value in the file looks like a secret.";
    FEEDBACK_ONCE = "W015", "A `feedback` dependency has no effect, because its agent runs only once.";
    FALLBACK_AROUND = "W016", "The fallbacks of model profiles in several files form a cycle.";
    ONE_SIDED_LOOP = "W017", "An agent of a loop cannot reach its `max_turns`, because the other agent cannot run often enough.";
    MISSING_TEMPLATE_KEY = "W018", "A template reads a key that is never written.";
    RESPONSE_NOT_A_CHOICE = "W019", "A prepared answer is not one of the choices.";
    UNREAD_CONFIG = "W020", "The `config` of an agent has no effect.";
    EXCLUSIVE_JOIN = "W021", "An agent can never run, because it requires two dependencies that exclude each other.";
    COUNTS_UPSTREAM = "W022", "A condition counts an agent upstream of its dependency, so the agent starts with an older output.";
    FIXED_CONDITION = "W023", "The condition of a loop no longer changes while the loop runs.";
    UNREAD_INPUT = "W024", "Nothing can read a declared input.";
    SCRIPT_READS = "W025", "A Rhai script reads a variable or a key that does not exist.";
    UNANSWERED = "W026", "In CI, no person answers the question of an input agent.";
    LIST_TOO_EARLY = "W030", "A `for_each` reads the output of an agent on which its own agent does not depend.";
    IDLE_PARALLEL = "W034", "`max_parallel_tools` has no effect, because all tools of the agent are exclusive.";
    IDLE_ENV = "W036", "The `env` of a Rhai script has no effect.";
    SANDBOX_PATH = "W039", "A path of a `sandbox` does not exist.";
    NEVER_FITS = "W040", "A comparison has the same result for all values that can occur.";
    MISFIT = "W041", "A condition uses a value in a way that the type of the value does not allow.";
    TEMPLATE_MISFIT = "W042", "A template uses a value in a way that the type of the value does not allow.";
    BEYOND_LIMIT = "W043", "A time limit or an attempt of an agent exceeds a time limit of the conversation.";
    NO_PRICE = "W044", "A `max_cost` does not count a model, because the model has no price.";
    NO_VALUE = "W045", "A JSON Schema matches no value.";
    NEVER_SUCCEEDS = "W046", "An agent can never succeed, because its output never matches its schema or its list is too long.";
    LOST_REQUEST = "W047", "A prepared reply requests an agent that does not exist, or its agent cannot request agents.";
    UNFIT_INPUTS = "W048", "An agent passes its ensemble undeclared inputs, or not all required inputs.";
    NO_FUNCTION = "W049", "A Rhai script calls a function that does not exist, or with a wrong number of arguments.";
    VAIN_REQUEST = "W050", "A Rhai script makes requests that are ignored.";
    IDLE_SETTINGS = "W053", "`validate` in the user's own configuration has no effect.";
    IDLE_BUDGET = "W054", "`budget` has no effect, because the conversation has no budget.";
    IDLE_SUMMARY = "W055", "A key for summaries of tool results has no effect.";
    EXPECTS_NOTHING = "W060", "A case of a test file has no expectations.";
    STOPPED_HANDLER = "W061", "A dependency is on failures of an agent whose failure stops the run.";
    NEVER_MET = "W062", "A required agent does not run by itself, because it belongs to a tool.";
    UNKNOWN_NEWS = "W065", "A template asks whether the output of an agent is new, and that output never starts its agent.";
    OUTPUT_MAY_MISS = "W072", "`result` or `success` reads a member of the output of an agent that may never run.";
    UNEXPANDED_VARIABLE = "W077", "A text contains `${NAME}`, and nothing expands it.";
    NEVER_REQUESTED = "W081", "An agent runs only on request, and no agent can request it.";
    IDLE_START_KEY = "W082", "A key of a dependency has no effect, because its agent runs only on request.";
    FEED_EACH_OTHER = "H001", "Agents without dependencies start each other.";
    CAP_ENDS_RUN = "H002", "`max_agent_executions` of an agent is not above its `max_turns`, and ends the whole conversation.";
    SHARED_STATE_KEY = "H003", "Several agents store their outputs under the same key.";
    UNUSED_PROFILE = "H010", "A model profile of the file is not used.";
    IDLE_TURNS = "H011", "An agent without dependencies can never reach its `max_turns`.";
    IDLE_EXECUTIONS = "H012", "A dependency's `max_executions` can never be reached.";
    SHARED_KEY = "H013", "A condition reads a key of the context that several agents write.";
    TRUTH_OF_ANSWER = "H014", "A condition uses a value as a boolean that a model might write as a string.";
    UNUSED_TOOL = "H020", "A tool of the file is not used.";
    SUCCESS_ONLY = "H021", "A dependency with `on: any` is on an agent whose failure stops the run.";
    UNHEARD_DEPENDENCIES = "H027", "A prompt uses variables, but no output of the agent's dependencies.";
    NULL_CONDITION = "H028", "A `condition` has no value, so the dependency has no condition.";
    CUT_LOOP = "H032", "`max_total_turns` ends a loop before one of its agents reaches its `max_turns`.";
    UNASKED_LOOP = "H033", "A loop can end at a limit, and nothing asks whether its condition ended it.";
}

/// The codes of findings about a value that has no effect where it is.
pub const NO_EFFECT_CODES: &[FindingCode] = &[
    NOT_FOR_KIND,
    WAIT_FOR_ANY_OF,
    AT_LEAST_ALONE,
    BUDGET_WITHOUT_PRICE,
    FEEDBACK_ONCE,
    UNREAD_CONFIG,
    IDLE_PARALLEL,
    IDLE_ENV,
    BEYOND_LIMIT,
    NO_PRICE,
    IDLE_BUDGET,
    IDLE_SUMMARY,
    IDLE_START_KEY,
    CAP_ENDS_RUN,
    IDLE_EXECUTIONS,
];

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
