"""The paper: direct control (ADM), relations (RTM), accumulated control and mega-reward. Needs torch only."""
