package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/skein-project/skein/api"
)

// fetch gets a body in both forms: decoded, and as it is for -o json.
func fetch[T any](ctx context.Context, c *api.Client, path string) (T, []byte, error) {
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
