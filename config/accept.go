package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// Acceptance is whose jobs this host runs.
func (l Live) Acceptance() job.Acceptance {
	return job.Acceptance{Accept: l.Accept, Names: l.AcceptNames}
}

func acceptKeys() []key {
	return []key{
		valueKey("worker.accept", func(c *Live) *job.Accept { return &c.Accept },
			optional(oneOf(job.AcceptPublic, job.AcceptOwner, job.AcceptUser, job.AcceptGroup, job.AcceptNone)), word,
			"Whose jobs this host runs, of those that permit it: everybody's (public), its owner's",
			"(owner), also those of the users or of the members of the groups in accept_names (user,",
			"group), or none. Empty: owner where `skein host owner` named one, else public."),
		spec[Live]{
			name: "worker.accept_names", kind: "a list of strings",
			doc:   []string{"With accept = \"user\" the users, such as \"user:ann\" or \"uid:1000\"; with \"group\" the groups.", "At most 256."},
			parse: func(s string) (any, error) { return splitList(s), nil },
			set:   setAcceptNames,
			show: func(c *Live) string {
				quoted := make([]string, len(c.AcceptNames))
				for i, n := range c.AcceptNames {
					quoted[i] = quote(n)
				}
				return "[" + strings.Join(quoted, ", ") + "]"
			},
		}.key(),
	}
}

func setAcceptNames(c *Live, v any) error {
	list, ok := v.([]any)
	if !ok {
		return errType{"a list of strings", typeName(v)}
	}
	if len(list) > job.MaxAcceptNames {
		return fmt.Errorf("%d names, at most %d are allowed", len(list), job.MaxAcceptNames)
	}
	names := make([]string, 0, len(list))
	for _, e := range list {
		s, ok := e.(string)
		if !ok {
			return errType{"a list of strings", "a list with " + typeName(e)}
		}
		if !cluster.Printable(s, cluster.MaxPrincipal) {
			return fmt.Errorf("%s is neither a user nor a group", strconv.Quote(s[:min(len(s), 64)]))
		}
		names = append(names, s)
	}
	slices.Sort(names)
	c.AcceptNames = slices.Compact(names)
	return nil
}

// settleAccept checks what the keys about whose jobs are run cannot check alone.
func (c *Config) settleAccept() *Error {
	switch a := c.Live.Acceptance(); a.Accept {
	case job.AcceptUser, job.AcceptGroup:
		if len(a.Names) == 0 {
			return &Error{Key: "worker.accept", Msg: fmt.Sprintf("%q needs names", a.Accept), Hint: "name them in worker.accept_names, or use \"owner\""}
		}
	default:
		if len(a.Names) > 0 {
			return &Error{Key: "worker.accept_names", Msg: "names mean something with accept = \"user\" or \"group\" only", Hint: "set worker.accept, or name nobody"}
		}
	}
	if err := c.Live.Acceptance().Check(); err != nil {
		return &Error{Key: "worker.accept_names", Msg: err.Error(), Hint: "users are \"user:ann\" or \"uid:1000\", groups those of `skein group ls`"}
	}
	return nil
}
