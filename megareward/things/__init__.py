"""Things in place of cells: control that is carried by what is seen to move, however large or small it is.

sight      things of a few frames by sight, each followed from frame to frame
networks   what a thing will look like next (RTM's Phi), and which action moved it (ADM's guess)
models     direct control of every thing and what it relied on; the losses of both networks
"""
