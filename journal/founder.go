package journal

import (
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/eventlog/state"
)

// Joined is what NoteFounder needs of the event log.
type Joined interface {
	Repairing() []audit.Repairing
	Missing(audit.Repairing) bool
	View(func(*state.State))
}

// NoteFounder logs the admission of the host that founded the cluster, which no
// sponsor admitted: self, if it has the root key and the log lacks its admission.
// The admission of any other host to which the root key was brought was logged by
// its sponsor.
func (j *Journal) NoteFounder(log Joined, self cluster.Member, idPub []byte) {
	if slices.ContainsFunc(log.Repairing(), log.Missing) {
		return // what was logged is not all here
	}
	logged := false
	log.View(func(s *state.State) {
		for _, m := range s.Members() {
			logged = logged || m.Node == self.Node && m.Joined != 0
		}
	})
	if logged {
		return
	}
	joined := event.MemberJoined{Node: self.Node, IDPub: idPub}
	if self.IP4.IsValid() {
		joined.IP4 = self.IP4.String()
	}
	j.Note(event.KindMemberJoined, joined)
}
