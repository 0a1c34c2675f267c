package coord

import "errors"

// ErrNotHolder says that this host does not hold the lease, so that it cannot
// hand it over or change it.
var ErrNotHolder = errors.New("not the holder")
