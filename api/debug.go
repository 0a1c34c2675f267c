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
	// after it: an answer of another host has at most 4 MiB. Where the answer travels
	// inside that to the request of a user, it is MaxDebugCarried.
	MaxDebugHost    = 8 << 20
	MaxDebugPacked  = 2900 << 10
	MaxDebugCarried = 2100 << 10
	// MaxDebugLog bounds the part of the event log, which only the host that is asked adds
	// to its own files, before it is packed; MaxDebugLogPacked after it.
	MaxDebugLog       = 24 << 20
	MaxDebugLogPacked = 12 << 20
	// MaxDebugSince is how far back one may ask.
	MaxDebugSince = 10 * 365 * 24 * time.Hour
)

// DebugLogFile is the file with the event log, as `skein log export` writes it.
const DebugLogFile = "log.jsonl"

// DebugAsk says what to gather.
type DebugAsk struct {
	// Profile is how long to look where the processor is, in whole seconds; 0: not at all.
	Profile time.Duration
	// Since is how far back warnings and events go, in whole seconds; 0: as far as there are any.
	Since time.Duration
	// Log asks for the event log as well; another host than the one that answers gives none.
	Log bool
	// Carried says that the answer travels to the request of a user.
	Carried bool
}

// Check refuses what is out of bounds.
func (a DebugAsk) Check() error {
	if a.Profile < 0 || a.Profile > MaxDebugProfile {
		return Errorf(CodeInvalidRequest, "a profile of %s: at most %s are allowed", a.Profile, MaxDebugProfile)
	}
	if a.Since < 0 || a.Since > MaxDebugSince {
		return Errorf(CodeInvalidRequest, "%s is no time to look back: at most %s are", a.Since, MaxDebugSince)
	}
	return nil
}

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

// Debug asks for the files of a host, empty: the one that answers.
func (c *Client) Debug(ctx context.Context, node cluster.NodeID, ask DebugAsk) (DebugFiles, error) {
	q := url.Values{}
	if node != "" {
		q.Set("node", string(node))
	}
	if ask.Profile > 0 {
		q.Set("profile_seconds", strconv.Itoa(int(ask.Profile.Seconds())))
	}
	if ask.Since > 0 {
		q.Set("since_seconds", strconv.Itoa(int(ask.Since.Seconds())))
	}
	if ask.Log {
		q.Set("log", "true")
	}
	return get[DebugFiles](ctx, c, "/v1/debug?"+q.Encode())
}
