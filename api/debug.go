package api

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/skein-project/skein/cluster"
)

// Bounds of DebugFiles.
const (
	// MaxDebugProfile is the longest profile of the processor.
	MaxDebugProfile = 10 * time.Second
	// MaxDebugHost bounds the files of one host before they are packed, MaxDebugPacked
	// after it: an answer of another host has at most 4 MiB.
	MaxDebugHost   = 8 << 20
	MaxDebugPacked = 2900 << 10
)

// DebugFiles answers GET /v1/debug: what a host knows of itself, for whoever looks for a
// fault. There is no secret in it.
type DebugFiles struct {
	Header
	Host    cluster.NodeID `json:"host"` // which it is about
	Version string         `json:"version"`
	Files   []DebugFile    `json:"files"`
}

// DebugFile is one file, packed by gzip. Error says why there is none, or why it was cut
// to Size bytes.
type DebugFile struct {
	Name  string `json:"name"`
	Size  int    `json:"size"` // before it was packed
	Gzip  []byte `json:"gzip"`
	Error string `json:"error,omitempty"`
}

// Debug asks for the files of a host, empty: the one that answers, with a profile of the
// processor over so long, unless that is 0.
func (c *Client) Debug(ctx context.Context, node cluster.NodeID, profile time.Duration) (DebugFiles, error) {
	q := url.Values{}
	if node != "" {
		q.Set("node", string(node))
	}
	if profile > 0 {
		q.Set("profile_seconds", strconv.Itoa(int(profile.Seconds())))
	}
	return get[DebugFiles](ctx, c, "/v1/debug?"+q.Encode())
}
