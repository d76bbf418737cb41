//! The reasoning of a model, apart from its reply.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Reasoning of a model before a reply. The model that wrote the reasoning can need it again.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Reasoning {
    /// `PROVIDER/MODEL` of the model that wrote it. Others do not receive it.
    pub from: String,
    /// The text, unless it is in the blocks.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The key of a message under which the provider takes the text back; `None` if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Data of the provider that is sent back unchanged: signed or encrypted blocks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<Value>,
}

impl Reasoning {
    /// Returns the readable text of the reasoning, also of blocks that are not encrypted.
    pub fn to_text(&self) -> String {
        let of_block = |block: &Value| -> Option<String> {
            let mut texts = ["thinking", "text", "summary"].into_iter();
            texts.find_map(|key| block.get(key)?.as_str().map(str::to_owned))
        };
        let blocks = self.blocks.iter().filter_map(of_block);
        let texts: Vec<String> = std::iter::once(self.text.clone()).chain(blocks).collect();
        let texts = texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty());
        texts.collect::<Vec<_>>().join("\n\n")
    }
}
