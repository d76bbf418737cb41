//! The reasoning of a reply while its pieces arrive.

use serde_json::Value;

use ensemble_core::thread::Reasoning;

/// Reasoning that is being assembled.
#[derive(Debug, Default)]
pub(crate) struct PartialReasoning {
    pub(crate) text: String,
    /// The key under which the provider takes the text back.
    pub(crate) key: Option<&'static str>,
    /// Blocks with the index of their pieces.
    blocks: Vec<(Option<u64>, Value)>,
}

/// Keys of a block whose pieces are appended. Other keys are replaced.
const APPENDED_KEYS: [&str; 5] = ["thinking", "text", "summary", "data", "signature"];

impl PartialReasoning {
    /// Adds a new block.
    pub(crate) fn add_block(&mut self, index: Option<u64>, block: Value) {
        self.blocks.push((index, block));
    }

    /// Adds a piece to the latest block with this index and kind, or to a new block.
    pub(crate) fn add_piece(&mut self, index: Option<u64>, piece: &Value) {
        let kind = &piece["type"];
        let same = |(known, block): &&mut (Option<u64>, Value)| {
            index.is_some() && *known == index && (kind.is_null() || block["type"] == *kind)
        };
        let Some((_, block)) = self.blocks.iter_mut().rev().find(same) else {
            return self.add_block(index, piece.clone());
        };
        for (key, value) in piece.as_object().into_iter().flatten() {
            match (block[key].as_str(), value.as_str()) {
                (Some(before), Some(more)) if APPENDED_KEYS.contains(&key.as_str()) => {
                    block[key] = format!("{before}{more}").into();
                }
                _ if !value.is_null() => block[key] = value.clone(),
                _ => {}
            }
        }
    }

    /// Returns the reasoning if there is any, or if a call has a signature, which needs its source.
    pub(crate) fn into_reasoning(self, is_signed: bool) -> Option<Reasoning> {
        let mut reasoning = Reasoning {
            from: String::new(),
            text: self.text,
            key: self.key.map(str::to_owned),
            blocks: self.blocks.into_iter().map(|(_, block)| block).collect(),
        };
        let blocks = Reasoning {
            text: String::new(),
            ..reasoning.clone()
        };
        if !blocks.to_text().is_empty() {
            // Some servers say it twice.
            reasoning.text.clear();
        }
        let is_there = is_signed || !reasoning.text.is_empty() || !reasoning.blocks.is_empty();
        is_there.then_some(reasoning)
    }
}
