package event

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Subject is what an event is asked about. The zero value matches every event;
// of several fields that are set, each must match.
type Subject struct {
	Job    string // its id
	Member string // the name of a host: what is said of it, and the facts that it wrote
	Worker string // the host that runs chunks
	Run    string // the id of a run of a workflow
	User   string // who asked, owns or is said to be something: "ann" or "user:ann", "uid:1000", "node:n1"; with or without "@HOST"
}

// Part is a part of a Subject.
type Part byte

// The parts of a Subject.
const (
	PartJob    Part = 'j'
	PartMember Part = 'm'
	PartWorker Part = 'w'
	PartRun    Part = 'r'
	PartUser   Part = 'u'
)

// Name is one thing that events are about.
type Name struct {
	Part Part
	Text string
}

// partOf is the part that the strings of a field of a body name, wherever in a
// body it stands; but for who a user or a group is, the same in every kind. 0: none.
func (k Kind) partOf(field []byte) Part {
	switch string(field) {
	case "name":
		if k == KindUserSet {
			return PartUser
		}
	case "members":
		if k == KindGroupSet {
			return PartUser
		}
	case "job", "jobs":
		return PartJob
	case "worker":
		return PartWorker
	case "run", "runs":
		return PartRun
	case "node", "peer", "host", "publisher", "successor", "previous", "voters", "grants":
		return PartMember
	case "actor", "owner":
		return PartUser
	}
	return 0
}

// Names returns the parts of s that are set; an event must name each of them.
func (s Subject) Names() []Name {
	if s.User != "" {
		s.User = string(userOf([]byte(s.User)))
	}
	return slices.DeleteFunc([]Name{{PartJob, s.Job}, {PartMember, s.Member}, {PartWorker, s.Worker}, {PartRun, s.Run}, {PartUser, s.User}},
		func(n Name) bool { return n.Text == "" })
}

// Match reports whether e is about s.
func (s Subject) Match(e *Event) bool {
	return !slices.ContainsFunc(s.Names(), func(n Name) bool { return !n.in(e) })
}

func (n Name) in(e *Event) (found bool) {
	// Most events are about something else: their bodies are not parsed.
	text := n.Text
	if n.Part == PartUser {
		text = strings.TrimPrefix(text, userPrefix)
	}
	if n.Part == PartMember && string(e.Source.Node) == n.Text || bytes.Contains(e.Body, []byte(text)) {
		e.Named(func(p Part, text []byte) bool {
			found = p == n.Part && string(text) == n.Text
			return !found
		})
	}
	return found
}

// Named calls f with all that e is about, some of it perhaps twice, until f
// returns false. A user that stands as "NAME@HOST" is "NAME" as well. The text is
// valid until f returns.
func (e *Event) Named(f func(p Part, text []byte) bool) {
	if !e.Kind.Authority() && !f(PartMember, []byte(e.Source.Node)) {
		return
	}
	var room [16]Part
	open := room[:0] // of each open object or array: what its strings name
	for b := e.Body; len(b) > 0; {
		switch b[0] {
		case '{', '[':
			if p := Part(0); len(open) < maxNesting {
				if len(open) > 0 {
					p = open[len(open)-1]
				}
				open = append(open, p)
			} else {
				return
			}
		case '}', ']':
			if len(open) > 0 {
				open = open[:len(open)-1]
			}
		case '"':
			text, rest := cutString(b)
			if b = rest; len(open) == 0 {
				continue
			}
			if p := &open[len(open)-1]; isKey(rest) {
				*p = e.Kind.partOf(text)
			} else if *p != 0 && !tell(*p, text, f) {
				return
			}
			continue
		}
		b = b[1:]
	}
}

// maxNesting is how deep names are looked for.
const maxNesting = 64

// userPrefix stands before the names of users; whoever has none of it is one of them.
const userPrefix = "user:"

func userOf(text []byte) []byte {
	if bytes.IndexByte(text, ':') >= 0 {
		return text
	}
	return append([]byte(userPrefix), text...)
}

func tell(p Part, text []byte, f func(Part, []byte) bool) bool {
	if len(text) == 0 {
		return true
	}
	if p == PartUser {
		text = userOf(text)
		if name, _, at := bytes.Cut(text, []byte("@")); at && len(name) > 0 && !f(p, name) {
			return false
		}
	}
	return f(p, text)
}

// isKey reports whether b, what follows a string, says that it was a key.
func isKey(b []byte) bool {
	b = bytes.TrimLeft(b, " \t\r\n")
	return len(b) > 0 && b[0] == ':'
}

// cutString reads the string that b begins with.
func cutString(b []byte) (text, rest []byte) {
	escaped := false
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			escaped = true
			i++
		case '"':
			text, rest = b[1:i], b[i+1:]
			if escaped {
				var s string
				if json.Unmarshal(b[:i+1], &s) != nil {
					return nil, rest
				}
				text = []byte(s)
			}
			return text, rest
		}
	}
	return nil, nil
}
