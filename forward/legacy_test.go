package forward

import (
	"encoding/json"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// legacyRequest and legacyReply are the messages as hosts declared them before
// this package existed.
type legacyRequest struct {
	Actor      string                 `json:"actor"`
	Submit     *api.SubmitRequest     `json:"submit,omitempty"`
	Stop       *StopJob               `json:"stop,omitempty"`
	Group      *event.GroupSet        `json:"group,omitempty"`
	Release    *ReleaseJob            `json:"release,omitempty"`
	StepDown   *StepDownTerm          `json:"step_down,omitempty"`
	Voters     *api.VotersRequest     `json:"voters,omitempty"`
	ShowVoters *struct{}              `json:"show_voters,omitempty"`
	Depart     *DepartNode            `json:"depart,omitempty"`
	Conflict   *event.MemberConflict  `json:"conflict,omitempty"`
	Snapshot   *struct{}              `json:"snapshot,omitempty"`
	Workers    *struct{}              `json:"workers,omitempty"`
	CheckLog   *LogCheckRun           `json:"check_log,omitempty"`
	Drain      *api.DrainRequest      `json:"drain,omitempty"`
	OnionGrant *OnionKey              `json:"onion_grant,omitempty"`
	OnionDrain *api.OnionDrainRequest `json:"onion_drain,omitempty"`
	Renew      *struct{}              `json:"renew,omitempty"`
	Remove     *RemoveNode            `json:"remove,omitempty"`
}

type legacyReply struct {
	Problem  *api.Problem        `json:"problem,omitempty"`
	Submit   *api.SubmitResponse `json:"submit,omitempty"`
	Voters   *api.Voters         `json:"voters,omitempty"`
	Snapshot *api.LogSnapshot    `json:"snapshot,omitempty"`
	Workers  *api.Workers        `json:"workers,omitempty"`
	Released int                 `json:"released,omitempty"`
	Check    *api.LogCheck       `json:"check,omitempty"`
	Drain    *api.Drain          `json:"drain,omitempty"`
	Cert     *string             `json:"cert,omitempty"`
	By       cluster.NodeID      `json:"by,omitempty"`
	Lacks    bool                `json:"lacks,omitempty"`
}

// legacyText is text as a host from before decodes and encodes it again: what
// it does not understand is lost.
func legacyText[T any](text []byte) (string, error) {
	var v T
	if err := json.Unmarshal(text, &v); err != nil {
		return "", err
	}
	out, err := json.Marshal(v)
	return string(out), err
}
