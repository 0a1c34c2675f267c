package channel

import (
	"strings"
	"testing"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

const (
	mine   = cluster.NodeID("w-qqkoceve6obhnoikv6ifszqs57")
	others = cluster.NodeID("w-aaaaaaaaaaaaaaaaaaaaaaaaaa")
)

const hers, his = job.ID("jaaaaaaaaaaaaaaaaaaaaaaaaaa"), job.ID("jbbbbbbbbbbbbbbbbbbbbbbbbbb")

// TestListen: who may listen to what, of whom there may be anybody.
func TestListen(t *testing.T) {
	const none, no, yes = 102, 103, 0
	worker := Listener{Worker: mine}
	watches := Listener{Owner: "user:ann", Roles: []string{"watch"}}
	submits := Listener{Owner: "user:ann", Roles: []string{"submit", "work"}}
	works := Listener{Owner: "user:ann", Roles: []string{"work"}}
	nobody := Listener{}                          // whose access token was revoked
	for name, want := range map[string][5]uint32{ // the worker, who watches, submits, has workers, nobody
		api.WorkChannel + string(mine):       {yes, no, no, no, no},
		api.WorkChannel + string(others):     {no, no, no, no, no},
		api.WorkChannel:                      {no, no, no, no, no},
		api.WorkChannel + string(mine) + "x": {no, no, no, no, no},
		"cluster":                            {no, yes, no, no, no},
		"job:" + string(hers):                {no, yes, yes, no, no},
		"job:" + string(his):                 {no, no, no, no, no},
		"job:jcccccccccccccccccccccccccc":    {no, no, no, no, no}, // nobody's
		"user:#u:ann":                        {no, yes, yes, no, no},
		"user:#u:bob":                        {no, no, no, no, no},
		"user:#u:":                           {none, none, none, none, none},
		"user:#u:ann,bob":                    {none, none, none, none, none},
		"user:ann":                           {none, none, none, none, none},
		"user:#user:ann":                     {none, none, none, none, none},
		"job:1":                              {none, none, none, none, none},
		"job:" + string(hers) + " ":          {none, none, none, none, none},
		"cluster:x":                          {none, none, none, none, none},
		"":                                   {none, none, none, none, none},
		string(mine):                         {none, none, none, none, none},
		"$" + api.WorkChannel + string(mine): {none, none, none, none, none},
	} {
		for i, by := range []Listener{worker, watches, submits, works, nobody} {
			got := uint32(0)
			if err := Listen(by, name, func(id job.ID) string { return map[job.ID]string{hers: "user:ann", his: "user:bob"}[id] }); err != nil {
				got = err.Code
			}
			if got != want[i] {
				t.Errorf("%+v, %q: %d, want %d", by, name, got, want[i])
			}
		}
	}
}

// FuzzOf: no name is of two kinds, and of one whose job or user is none.
func FuzzOf(f *testing.F) {
	for _, name := range []string{"cluster", "job:" + string(hers), "user:#u:ann", "user:#u:", api.WorkChannel + string(mine)} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		kind, known := Of(name)
		id, isJob := JobOf(name)
		owner, isUser := UserOf(name)
		switch {
		case isJob && (!known || kind != Job || "job:"+string(id) != name):
			t.Errorf("%q is of the job %q, and %+v %v", name, id, kind, known)
		case known && kind == User && (!isUser || "user:#u:"+strings.TrimPrefix(owner, "user:") != name):
			t.Errorf("%q is of the user %q", name, owner)
		case known && kind == Job && !isJob:
			t.Errorf("%q is of no job", name)
		case known && kind == Cluster && name != "cluster":
			t.Errorf("%q is of the cluster", name)
		}
	})
}

func TestErrorOf(t *testing.T) {
	for code, want := range map[api.Code]Error{
		api.CodeConflict:   {Code: 1409, Message: "x"},
		api.CodeForbidden:  {Code: 1403, Message: "x"},
		api.CodeNotReady:   {Code: 1503, Message: "x", Temporary: true},
		api.CodeOverloaded: {Code: 1429, Message: "x", Temporary: true},
	} {
		if got := *ErrorOf(api.Errorf(code, "x")); got != want {
			t.Errorf("%s: %+v, want %+v", code, got, want)
		}
	}
}
