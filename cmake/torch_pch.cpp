// The one precompiled header of libtorch is built with this file.
