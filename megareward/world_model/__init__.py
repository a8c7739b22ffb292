"""World Models (Ha and Schmidhuber 2018): V sees a frame, M foresees the next one, C acts on both. Needs torch only."""
