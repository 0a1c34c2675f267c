package local

import (
	"testing"

	"github.com/skein-project/skein/api"
)

// TestNameNeverChanges: a diff says so, instead of asking for a restart.
func TestNameNeverChanges(t *testing.T) {
	running := []api.ConfigEntry{{Key: "node.name", Value: `"n1"`}, {Key: "mesh.mtu", Value: "0"}, {Key: "log.level", Value: `"info"`}}
	read := []api.ConfigEntry{
		{Key: "node.name", Value: `"n2"`, Reload: "restart"},
		{Key: "mesh.mtu", Value: "1300", Reload: "restart"},
		{Key: "log.level", Value: `"info"`, Reload: "reload"},
	}
	list := differences(running, read)
	if len(list) != 2 || list[0].Reload != takesNever || list[1].Reload != "restart" {
		t.Errorf("%+v", list)
	}
}
