package present

import (
	"fmt"
	"strconv"
	"time"

	"github.com/skein-project/skein/api"
)

// Tokens shows the invites of a host.
func Tokens(list api.Tokens) Table {
	type T = api.Token
	observed := list.ObservedAt
	return tableOf(list.Tokens,
		col("ID", Text, 0, func(t T) Cell { return Cell{Text: t.ID} }),
		col("STATE", State, 0, func(t T) Cell { return Cell{Text: tokenState(t, observed)} }),
		col("USES", Text, 1, func(t T) Cell { return Cell{Text: fmt.Sprintf("%d/%d", len(t.Spent), t.Uses)} }),
		col("EXPIRES", Time, 0, func(t T) Cell { return Cell{Text: Ahead(t.ExpiresAt, observed), Exact: Stamp(t.ExpiresAt)} }),
		col("SPENT", Text, 2, func(t T) Cell { return names(t.Spent) }),
	)
}

func tokenState(t api.Token, now time.Time) string {
	switch {
	case t.Revoked:
		return "revoked"
	case len(t.Spent) >= t.Uses:
		return "spent"
	case !now.Before(t.ExpiresAt):
		return "expired"
	case t.Ephemeral:
		return "open, ephemeral"
	}
	return "open"
}

// Users shows the users.
func Users(list api.Users) Table {
	type U = api.User
	observed := list.ObservedAt
	return tableOf(list.Users,
		col("USER", Text, 0, func(u U) Cell { return Cell{Text: u.Name} }),
		col("ROLE", Text, 0, func(u U) Cell { return Cell{Text: u.Role} }),
		col("STATE", State, 0, func(u U) Cell {
			if u.Disabled {
				return Cell{Text: "disabled"}
			}
			return Cell{Text: "active"}
		}),
		col("KEYS", Text, 1, func(u U) Cell { return Cell{Text: strconv.Itoa(len(u.Keys)), Exact: Joined(u.KeyIDs)} }),
		col("UIDS", Text, 4, func(u U) Cell {
			uids := make([]string, len(u.UIDs))
			for i, uid := range u.UIDs {
				uids[i] = strconv.FormatUint(uid, 10)
			}
			return names(uids)
		}),
		col("SET", Time, 3, func(u U) Cell { return at(u.At, observed) }),
		col("BY", Text, 2, func(u U) Cell { return word(u.Actor) }),
	)
}

// Groups shows the groups of users.
func Groups(list api.Groups) Table {
	type G = api.Group
	observed := list.ObservedAt
	return tableOf(list.Groups,
		col("GROUP", Text, 0, func(g G) Cell { return Cell{Text: g.Name} }),
		col("MEMBERS", Text, 0, func(g G) Cell { return Cell{Text: strconv.Itoa(len(g.Members)), Exact: Joined(g.Members)} }),
		col("SET", Time, 2, func(g G) Cell { return at(g.At, observed) }),
		col("BY", Text, 1, func(g G) Cell { return word(g.Actor) }),
	)
}

// Reservations shows for whom slots are kept.
func Reservations(list api.Reservations) Table {
	type R = api.Reservation
	observed := list.ObservedAt
	return tableOf(list.Reservations,
		col("NAME", Text, 0, func(r R) Cell { return Cell{Text: r.Name} }),
		col("OWNER", Text, 0, func(r R) Cell { return Cell{Text: r.Owner} }),
		col("ZONE", Text, 0, func(r R) Cell { return Cell{Text: r.Zone} }),
		col("SLOTS", Text, 0, func(r R) Cell { return Cell{Text: strconv.Itoa(r.Slots)} }),
		col("UNTIL", Time, 0, func(r R) Cell { return Cell{Text: Ahead(r.Until, observed), Exact: Stamp(r.Until)} }),
		col("SET", Time, 2, func(r R) Cell { return at(r.At, observed) }),
		col("BY", Text, 1, func(r R) Cell { return word(r.Actor) }),
	)
}

// Config shows the keys of a configuration.
func Config(list []api.ConfigEntry) Table {
	type E = api.ConfigEntry
	return tableOf(list,
		col("KEY", Text, 0, func(e E) Cell { return Cell{Text: e.Key} }),
		col("VALUE", Text, 0, func(e E) Cell { return Cell{Text: e.Value} }),
		col("ORIGIN", Text, 1, func(e E) Cell { return Cell{Text: e.Origin} }),
		col("RELOAD", Text, 2, func(e E) Cell { return word(e.Reload) }),
	)
}

// Findings shows what was examined.
func Findings(list []api.Finding) Table {
	type F = api.Finding
	return tableOf(list,
		col("GROUP", Text, 3, func(f F) Cell { return Cell{Text: f.Group} }),
		col("CHECK", Text, 0, func(f F) Cell { return Cell{Text: f.Check} }),
		col("VERDICT", State, 0, func(f F) Cell { return word(f.Verdict) }),
		col("DETAIL", Text, 0, func(f F) Cell { return word(f.Detail) }),
		col("HINT", Text, 1, func(f F) Cell { return word(f.Hint) }),
		col("DOC", Text, 2, func(f F) Cell { return word(f.Doc) }),
	)
}

// Whoami shows as whom a host takes who asks.
func Whoami(w api.Whoami) Table {
	type W = api.Whoami
	return tableOf([]W{w},
		col("NAME", Text, 0, func(w W) Cell { return word(w.Name) }),
		col("ROLE", Text, 0, func(w W) Cell { return word(w.Role) }),
		col("PROOF", Text, 1, func(w W) Cell { return word(w.Proof) }),
		col("LOOK", Text, 3, func(w W) Cell { return word(w.Rights.Look) }),
		col("READ", Text, 3, func(w W) Cell { return word(w.Rights.Read) }),
		col("USE", Text, 3, func(w W) Cell { return word(w.Rights.Use) }),
		col("OPERATE", Text, 3, func(w W) Cell { return word(w.Rights.Operate) }),
		col("MAY_CHANGE", Text, 2, func(w W) Cell { return yes(w.MayChange) }),
		more("ENDS", Time, func(w W) Cell { return moment(w.EndsAt) }),
		more("KEY", Text, func(w W) Cell { return word(w.KeyID) }),
	)
}

// WhoamiPage says the same in lines.
func WhoamiPage(w api.Whoami) []Field {
	who := w.Name
	if who == "" {
		who = "anybody who may read here"
	}
	proof := map[string]string{
		"socket": "the socket: the kernel says who asks", "signature": "a signature of this request by key " + w.KeyID,
		"token": "a token of key " + w.KeyID, "access_token": "access token " + w.KeyID, "none": "none is wanted here",
	}[w.Proof]
	if w.EndsAt != nil {
		proof += ", until " + Stamp(*w.EndsAt)
	}
	reaches := func(word string) string {
		return map[string]string{"all": "all", "own": "your own", "none": "no"}[word]
	}
	changes := "no"
	switch {
	case !w.MayChange && w.Proof == "token" && w.Rights.Use != "none":
		changes = "no: this host takes tokens for reading only (api.bearer)"
	case w.MayChange && w.Rights.Operate == "all":
		changes = "everything"
	case w.MayChange:
		changes = "jobs, " + reaches(w.Rights.Use)
	}
	return []Field{
		{"name", who},
		{"role", OrDash(w.Role)},
		{"proof", OrDash(proof)},
		{"sees", "the cluster; jobs: " + OrDash(reaches(w.Rights.Read))},
		{"changes", changes},
	}
}
