"""Where a side computes in integers: unknown scales, known ones, and values next to a tie."""
