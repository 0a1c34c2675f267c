package api

import "github.com/skein-project/skein/cluster"

// Overload is how loaded the host is that answers, what it refuses because of that, and
// which hosts it leaves alone. Counts are since its daemon started.
type Overload struct {
	Header
	// Level is normal, elevated, high, severe or critical; Score is what it comes from, from
	// 0 to 8, and Signal what says most, where the level is not normal. Enabled is
	// overload.enabled: without, nothing follows.
	Level   string  `json:"level"`
	Score   float64 `json:"score"`
	Signal  string  `json:"signal,omitempty"`
	Enabled bool    `json:"enabled"`
	// Signals are all that is measured, Lanes the kinds of requests, the most urgent first.
	Signals []OverloadSignal `json:"signals"`
	Lanes   []OverloadLane   `json:"lanes"`
	// Silent are hosts that did not answer lately and are not asked for a while.
	Silent []SilentHost `json:"silent"`
	// Hosts are the members that say of themselves to be above normal.
	Hosts []LoadedHost `json:"hosts"`
}

// OverloadSignal is one of the signals that the score comes from.
type OverloadSignal struct {
	Signal string `json:"signal"`
	// Value is what was measured, null: not known. From is the value above which it means
	// overload; for what is left of memory, below which. Unit is seconds, share or
	// points.
	Value *float64 `json:"value"`
	From  float64  `json:"from"`
	Unit  string   `json:"unit"`
	Score float64  `json:"score"`
}

// OverloadLane is the state of one kind of requests.
type OverloadLane struct {
	Lane string `json:"lane"`
	// From is the level from which on they are refused, empty: never. Refuses says that
	// they are now.
	From    string `json:"from"`
	Refuses bool   `json:"refuses"`
	// Places is how many run at once at most, Running how many do, Waiting how many wait.
	Places  int `json:"places"`
	Running int `json:"running"`
	Waiting int `json:"waiting"`
	// RefusedByLevel and RefusedByPlaces count what was refused since the level sheds the
	// lane, and since all places were taken.
	RefusedByLevel  uint64 `json:"refused_by_level"`
	RefusedByPlaces uint64 `json:"refused_by_places"`
}

// SilentHost is a host that is not asked for a kind of stream: forward, blob or watch. After
// WaitSeconds it is tried; Trying says that it is now.
type SilentHost struct {
	Node        cluster.NodeID `json:"node"`
	Kind        string         `json:"kind"`
	WaitSeconds float64        `json:"wait_seconds"`
	Trying      bool           `json:"trying"`
}

// LoadedHost is a member that has more to do than usual.
type LoadedHost struct {
	Node  cluster.NodeID `json:"node"`
	Level string         `json:"level"`
}
