package convert

import (
	"testing"

	"github.com/skein-project/skein/eventlog/disk"
)

// TestRoomInWords shows each state of the disk as the status tells it.
func TestRoomInWords(t *testing.T) {
	for state, want := range map[disk.State]string{
		disk.Low: "little room", disk.Full: "no room for new jobs", disk.Out: "no room at all",
	} {
		got := Room(disk.Report{State: state, Free: 5 << 20, Size: 3 << 20, Limit: 9 << 20})
		if want += ", 5 MiB free, 3 of 9 MiB used"; got != want {
			t.Errorf("%s: %q, want %q", state, got, want)
		}
	}
}
