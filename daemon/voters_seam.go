package daemon

import (
	"context"
	"errors"

	"github.com/skein-project/skein/lease"
)

func (n *node) wish(context.Context, lease.SetVoters) error { return errors.New("not yet") }
