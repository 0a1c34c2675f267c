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
	User   string // who asked or owns: "uid:1000", "node:n1"; with or without "@HOST"
}

// subjectFields are the fields of bodies that name a Subject, wherever in a body
// they stand; the same in every kind.
var subjectFields = map[string]func(s *Subject, value string) bool{
	"job": (*Subject).isJob, "jobs": (*Subject).isJob,
	"worker": (*Subject).isWorker,
	"node":   (*Subject).isMember, "peer": (*Subject).isMember, "host": (*Subject).isMember, "publisher": (*Subject).isMember,
	"successor": (*Subject).isMember, "previous": (*Subject).isMember, "voters": (*Subject).isMember, "grants": (*Subject).isMember,
	"actor": (*Subject).isUser, "owner": (*Subject).isUser,
}

func (s *Subject) isJob(v string) bool    { return v == s.Job }
func (s *Subject) isWorker(v string) bool { return v == s.Worker }
func (s *Subject) isMember(v string) bool { return v == s.Member }
func (s *Subject) isUser(v string) bool {
	name, _, _ := strings.Cut(v, "@")
	return v == s.User || name == s.User
}

// alone returns the parts of s that are set, each as a Subject of its own.
func (s Subject) alone() []Subject {
	var parts []Subject
	for _, p := range [...]Subject{{Job: s.Job}, {Member: s.Member}, {Worker: s.Worker}, {User: s.User}} {
		if p != (Subject{}) {
			parts = append(parts, p)
		}
	}
	return parts
}

// Match reports whether e is about s.
func (s Subject) Match(e *Event) bool {
	return !slices.ContainsFunc(s.alone(), func(p Subject) bool { return !p.match(e) })
}

func (s Subject) match(e *Event) bool {
	if s.Member != "" && string(e.Source.Node) == s.Member && !e.Kind.Authority() {
		return true
	}
	// Most events are about something else: no JSON is read for them.
	return bytes.Contains(e.Body, []byte(s.Job+s.Member+s.Worker+s.User)) && s.within(json.NewDecoder(bytes.NewReader(e.Body)))
}

// within walks a body and reports whether a field names s.
func (s Subject) within(d *json.Decoder) bool {
	// Of each open object or array: the field that it is the value of, and
	// whether the next string is a key.
	type level struct {
		field        string
		object, name bool
	}
	var open []level
	for {
		t, err := d.Token()
		if err != nil {
			return false // also the end
		}
		at := len(open) - 1
		switch v := t.(type) {
		case json.Delim:
			if v == '}' || v == ']' {
				open = open[:at]
				if at--; at >= 0 && open[at].object {
					open[at].name = true
				}
				continue
			}
			field := ""
			if at >= 0 {
				field = open[at].field
			}
			open = append(open, level{field: field, object: v == '{', name: v == '{'})
		case string:
			if at >= 0 && open[at].name {
				open[at].field, open[at].name = v, false
				continue
			}
			if at < 0 {
				return false // no object
			}
			if is := subjectFields[open[at].field]; is != nil && is(&s, v) {
				return true
			}
			open[at].name = open[at].object
		default:
			if at >= 0 {
				open[at].name = open[at].object
			}
		}
	}
}
