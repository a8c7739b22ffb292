"""See what a run does: the case study as a page, a clip and the paper's figure; a report of one run or of several."""
