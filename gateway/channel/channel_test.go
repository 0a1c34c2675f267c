package channel

import (
	"testing"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

const (
	mine   = cluster.NodeID("w-qqkoceve6obhnoikv6ifszqs57")
	others = cluster.NodeID("w-aaaaaaaaaaaaaaaaaaaaaaaaaa")
)

func TestListen(t *testing.T) {
	for name, want := range map[string]uint32{
		api.WorkChannel + string(mine): 0, api.WorkChannel + string(others): 103, api.WorkChannel: 103, api.WorkChannel + string(mine) + "x": 103,
		"": 102, "cluster": 102, "job:1": 102, "user:#u:ann": 102, string(mine): 102, "$" + api.WorkChannel + string(mine): 102,
	} {
		got := uint32(0)
		if err := Listen(mine, name); err != nil {
			got = err.Code
		}
		if got != want {
			t.Errorf("%q: %d, want %d", name, got, want)
		}
	}
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
