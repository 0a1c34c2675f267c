package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/skein-project/skein/api"
)

// Fetch gets a body in both forms: decoded, and as it is for -o json.
func Fetch[T any](ctx context.Context, c *api.Client, path string) (T, []byte, error) {
	var out T
	raw, err := c.Raw(ctx, path)
	if err != nil {
		return out, nil, err
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, nil, fmt.Errorf("%s: %w: %w", path, api.ErrAnswer, err)
	}
	return out, raw, nil
}

// PollPause is the time between two questions to a daemon that is awaited.
const PollPause = 200 * time.Millisecond
