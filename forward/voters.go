package forward

import (
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/overload"
)

// Voters changes who is meant to vote.
var Voters = &Op[api.VotersRequest, api.Voters]{
	Name: "voters", At: Holder, Lane: overload.Control, Key: "voters",
	Doc: "changes who is meant to vote", Answers: "who votes and who is meant to",
	Who: "the holder itself, sponsors", Quota: Quota{Name: "voters", Burst: 8, Every: 20 * time.Second, Late: true},
	Check: api.VotersRequest.Check,
	// Who chooses the voters decides who may schedule: one plain member that
	// was taken over must not.
	Allow: func(a Asker, _ api.VotersRequest) error {
		if a.Own() || a.Sponsor() {
			return nil
		}
		return api.Errorf(api.CodeForbidden, "%s is no sponsor: it may not change the voters", a.From).
			WithHint("do it on the holder, %s, or on a sponsor: see `skein members -o wide`", a.Self)
	},
}

// ShowVoters returns what only the holder knows of the voters.
var ShowVoters = &Op[None, api.Voters]{
	Name: "show_voters", At: Holder, Lane: overload.Control, Key: "voters",
	Doc: "says what the holder knows of the voters", Answers: "who votes and who is meant to",
	Who: "any member",
}
