"""What a claim is (`base`, `agent_claims`), which paper makes it (`registry`), and attacks on claims (`trials`)."""
