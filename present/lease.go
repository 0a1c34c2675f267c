package present

import (
	"fmt"

	"github.com/skein-project/skein/api"
)

// Lease shows the lease in one row.
func Lease(l api.Lease) Table {
	type L = api.Lease
	observed := l.ObservedAt
	return tableOf([]L{l},
		col("HOLDER", Text, 0, func(l L) Cell { return word(l.Holder) }),
		col("TERM", Number, 0, func(l L) Cell { return term(l.Term) }),
		col("PUBLISHER", Text, 2, func(l L) Cell { return word(l.Publisher) }),
		col("MODE", Text, 4, func(l L) Cell { return word(l.Mode) }),
		col("PROFILE", Text, 8, func(l L) Cell { return word(l.Profile) }),
		col("TENURE", Time, 5, func(l L) Cell { return span(l.TenureSeconds) }),
		col("RENEWED", Time, 3, func(l L) Cell { return since(l.RenewedSeconds, observed) }),
		col("EXPIRES", Time, 6, func(l L) Cell { return ahead(l.ExpiresSeconds, observed) }),
		col("READY", Text, 7, func(l L) Cell { return Cell{Text: ready(l)} }),
		col("EPOCH", Number, 9, func(l L) Cell { return term(l.Config.Epoch) }),
		col("VOTERS", Text, 1, func(l L) Cell { return names(l.Config.Voters) }),
		more("PUBLISH_WHY", Text, func(l L) Cell { return word(l.PublishWhy) }),
		more("ABSTAINING", Text, func(l L) Cell { return names(l.Abstaining) }),
		more("BLOCKED", Text, func(l L) Cell { return word(l.Blocked) }),
		more("PROMISED", Number, func(l L) Cell { return term(l.Promised) }),
	)
}

func ready(l api.Lease) string {
	if l.Ready == nil {
		return Unknown
	}
	return YesNo(*l.Ready)
}

// LeasePage shows the lease for people.
func LeasePage(l api.Lease) []Field {
	fields := []Field{
		{"holder", Holder(l.LeaseSummary)},
		{"publisher", Publisher(l.LeaseSummary)},
		{"voters", Joined(l.Config.Voters)},
		{"mode", fmt.Sprintf("%s, profile %s, epoch %s", OrDash(l.Mode), OrDash(l.Profile), TermOf(l.Config.Epoch))},
	}
	if l.Ready != nil && !*l.Ready {
		fields = append(fields, Field{"ready", "no: the start of the term is not yet with a majority"})
	}
	if len(l.Abstaining) > 0 {
		fields = append(fields, Field{"abstaining", Joined(l.Abstaining) + ": their record of votes was lost"})
	}
	if l.Blocked != "" {
		fields = append(fields, Field{"blocked", l.Blocked})
	}
	return fields
}

// Holder says who holds the lease, and for how long.
func Holder(l api.LeaseSummary) string {
	if l.Holder == "" {
		return "nobody known"
	}
	text := fmt.Sprintf("%s, term %s", l.Holder, TermOf(uint64(l.Term)))
	if l.TenureSeconds != nil {
		text += " for " + AgeOf(l.TenureSeconds)
	}
	if l.RenewedSeconds != nil {
		text += ", renewed " + AgeOf(l.RenewedSeconds) + " ago"
	}
	if l.ExpiresSeconds != nil {
		text += ", expires in " + AgeOf(l.ExpiresSeconds)
	}
	return text
}

// Publisher says who has the publishing duty, and why.
func Publisher(l api.LeaseSummary) string {
	switch {
	case l.Publisher == "":
		return "nobody known"
	case l.PublishWhy == "":
		return string(l.Publisher)
	case l.PublishWhy == api.PublishLease:
		return string(l.Publisher) + ", as the holder"
	}
	return string(l.Publisher) + ", " + l.PublishWhy
}

// Terms shows the past of the lease.
func Terms(h api.LeaseHistory) Table {
	type T = api.TermRecord
	observed := h.ObservedAt
	return tableOf(h.Terms,
		col("TERM", Number, 0, func(r T) Cell { return term(r.Term) }),
		col("HOLDER", Text, 0, func(r T) Cell { return word(r.Holder) }),
		col("STARTED", Time, 0, func(r T) Cell { return at(r.StartedAt, observed) }),
		col("ENDED", Time, 0, func(r T) Cell {
			if r.EndedAt == nil {
				return Cell{Text: Unknown}
			}
			return at(*r.EndedAt, observed)
		}),
		col("EVIDENCE", Time, 3, func(r T) Cell {
			if r.LastEvidenceAt == nil {
				return Cell{Text: Unknown}
			}
			return at(*r.LastEvidenceAt, observed)
		}),
		col("GAP", Time, 1, func(r T) Cell {
			if r.GapSeconds != nil && *r.GapSeconds == 0 {
				return Cell{Text: "none", Plain: "0"}
			}
			return span(r.GapSeconds)
		}),
		col("LATE", Time, 4, func(r T) Cell {
			if r.EndedAt == nil || r.ToldAt == nil {
				return Cell{Text: Unknown}
			}
			return span(new(r.ToldAt.Sub(*r.EndedAt).Seconds()))
		}),
		col("CAUSE", Text, 0, func(r T) Cell { return word(r.Cause) }),
		col("SUCCESSOR", Text, 5, func(r T) Cell { return word(r.Successor) }),
		col("PREVIOUS", Text, 6, func(r T) Cell { return word(r.Previous) }),
		col("GRANTS", Text, 2, func(r T) Cell { return names(r.Grants) }),
	)
}

// Voters shows who grants the lease, and who is meant to.
func Voters(v api.Voters) Table {
	type V = api.Voter
	return tableOf(v.Voters,
		col("NODE", Text, 0, func(x V) Cell { return word(x.Node) }),
		col("ZONE", Text, 3, func(x V) Cell { return word(x.Zone) }),
		col("STATE", State, 0, func(x V) Cell { return word(health(x.State, x.Stopped)) }),
		col("VOTER", Text, 0, func(x V) Cell { return yes(x.Voter) }),
		col("WANTED", Text, 0, func(x V) Cell { return yes(x.Target) }),
		col("EPOCH", Number, 2, func(x V) Cell { return Cell{Text: Lag(x.Epoch)} }),
		col("ABSTAINING", Text, 1, func(x V) Cell { return word(x.Abstaining) }),
		more("PRIORITY", Number, func(x V) Cell { return whole(x.Priority) }),
		more("WITNESS", Text, func(x V) Cell { return yes(x.Witness) }),
	)
}

// Snapshots shows the snapshots of a host's log.
func Snapshots(s api.LogSnapshots) Table {
	type S = api.LogSnapshot
	observed := s.ObservedAt
	return tableOf(s.Snapshots,
		col("ID", Text, 0, func(x S) Cell { return Cell{Text: x.ID.String()[:12]} }),
		col("EVENTS", Number, 0, func(x S) Cell { return whole(x.Events) }),
		col("LAST", Time, 0, func(x S) Cell { return at(x.LastAt, observed) }),
		col("SIZE", Number, 2, func(x S) Cell { return size(x.SizeBytes) }),
		col("TERM", Number, 3, func(x S) Cell { return term(x.Term) }),
		col("SIGNERS", Text, 1, func(x S) Cell { return names(x.Signers) }),
		col("STATE", Text, 4, func(x S) Cell { return Cell{Text: x.StateHash.String()[:12]} }),
	)
}

// Sources shows how far the chains of a log reach.
func Sources(list []api.LogSource) Table {
	type S = api.LogSource
	return tableOf(list,
		col("NODE", Text, 0, func(s S) Cell { return Cell{Text: string(s.Source.Node)} }),
		col("INC", Number, 0, func(s S) Cell { return whole(s.Source.Inc) }),
		col("SEQ", Number, 0, func(s S) Cell { return whole(s.Seq) }),
		col("HASH", Text, 0, func(s S) Cell { return Cell{Text: s.Hash.String()} }),
	)
}
