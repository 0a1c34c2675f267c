package api

import (
	"time"

	"github.com/skein-project/skein/cluster"
)

// APIVersion is the value of api_version in every body of this package.
const APIVersion = "1"

// Header is part of every body.
type Header struct {
	APIVersion string         `json:"api_version"`
	Node       cluster.NodeID `json:"node"` // who answers
	ObservedAt time.Time      `json:"observed_at"`
	// Position is the number of events that the answering host had folded.
	Position uint64 `json:"position"`
	// Cursor, in the answer to a change, is a position behind it: with it as min a
	// reader sees the change at any host.
	Cursor string `json:"cursor,omitempty"`
}

// Secret is a text that must not be shown by accident: it prints as
// [redacted] and travels only in a body that hands it out on purpose.
type Secret string

// String returns [redacted].
func (Secret) String() string { return "[redacted]" }

// GoString returns [redacted].
func (Secret) GoString() string { return "[redacted]" }

// Reveal returns the text.
func (s Secret) Reveal() string { return string(s) }

// Version answers GET /v1/version.
type Version struct {
	Header
	Version   string `json:"version"`
	Cluster   string `json:"cluster"` // id, which proofs of users name
	GoVersion string `json:"go_version"`
}

// Health answers GET /healthz and GET /readyz.
type Health struct {
	Header
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"` // why not
}

// Config answers GET /v1/config: the effective values, secrets redacted.
type Config struct {
	Header
	Entries []ConfigEntry `json:"entries"`
}

// How a changed key takes effect: by a reload, or by a restart.
const (
	ReloadLive    = "reload"
	ReloadRestart = "restart"
)

// ReloadOf is the word for a key that takes effect live or not.
func ReloadOf(live bool) string {
	if live {
		return ReloadLive
	}
	return ReloadRestart
}

// ConfigEntry is one key of the configuration.
type ConfigEntry struct {
	Key    string `json:"key"`
	Value  string `json:"value"`  // in TOML form
	Origin string `json:"origin"` // default, file, env or flag
	Reload string `json:"reload"` // reload or restart: how a change takes effect
}
