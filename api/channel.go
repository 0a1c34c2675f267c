package api

import (
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// Channels that the bearer of an access token may listen to: POST /v1/realtime/token.
const (
	ClusterChannel = "cluster"  // whether somebody holds; access tokens for watch
	JobChannel     = "job:"     // and its id: one job
	UserChannel    = "user:#u:" // and a user's name: that user's jobs
)

// RealtimeToken answers POST /v1/realtime/token.
type RealtimeToken struct {
	Token     Secret    `json:"token"` // to connect with
	ExpiresAt time.Time `json:"expires_at"`
	WSURL     string    `json:"ws_url,omitempty"` // as of GatewayInfo
	Channel   string    `json:"channel"`          // of the user's jobs
}

// What a ChannelPush is about.
const (
	ChannelAboutCluster = "cluster"
	ChannelAboutJob     = "job"  // how one job is, on its own channel
	ChannelAboutJobs    = "jobs" // those of a user that changed
	ChannelAboutGone    = "gone" // the job is not kept any more
)

// ChannelPush is a message on these channels. It carries the present state, never a
// difference: a missed message does no harm once the next one arrives, and the same one
// may arrive twice.
type ChannelPush struct {
	V       int             `json:"v"` // 1
	Type    string          `json:"type"`
	At      time.Time       `json:"at"`
	Cluster *ChannelCluster `json:"cluster,omitempty"`
	Job     *ChannelJob     `json:"job,omitempty"`
	Jobs    []ChannelJob    `json:"jobs,omitempty"` // the newest first
	// More says that there are more jobs than are told here: GET /v1/jobs.
	More bool `json:"more,omitempty"`
}

// ChannelCluster is all that somebody outside learns of the cluster.
type ChannelCluster struct {
	Term cluster.Term `json:"term,string"`
	Held bool         `json:"held"` // somebody holds: jobs go on
}

// ChannelJob is how a job is, in short; the rest, its aggregates too, GET /v1/jobs/{id} says.
type ChannelJob struct {
	ID             job.ID            `json:"id"`
	Name           string            `json:"name"`
	State          job.State         `json:"state"`
	Reason         string            `json:"reason,omitempty"`
	SubmittedAt    time.Time         `json:"submitted_at"`
	FinishedAt     *time.Time        `json:"finished_at"`
	ElapsedSeconds float64           `json:"elapsed_seconds"`
	Chunks         ChunkCounts       `json:"chunks"`
	Iterations     ChannelIterations `json:"iterations"`
	RatePerSecond  *float64          `json:"rate_per_second"`
	ETASeconds     *float64          `json:"eta_seconds"`
}

// ChannelIterations is IterationCounts for browsers, whose numbers have 53 bits.
type ChannelIterations struct {
	Total    uint64 `json:"total,string"`
	Accepted uint64 `json:"accepted,string"`
}
