package present

import "testing"

func TestUnits(t *testing.T) {
	for s, want := range map[float64]string{0.0011: "1.1ms", 0.4: "0.4s", 7.2: "7.2s", 41: "41s", 119.4: "119s", 600: "10m", 7200: "2h", 200000: "2d", -1: "-"} {
		if got := Age(s); got != want {
			t.Errorf("age(%g) = %s, want %s", s, got, want)
		}
	}
	for n, want := range map[uint64]string{0: "0B", 1023: "1023B", 1024: "1.0KiB", 64 << 20: "64.0MiB", 1<<40 - 1: "1.0TiB"} {
		if got := BytesOf(n); got != want {
			t.Errorf("bytesOf(%d) = %s, want %s", n, got, want)
		}
	}
	for n, want := range map[float64]string{0: "0", 12.3456: "12.3", 999: "999", 1000: "1k", 1.25e6: "1.25M", 1e8: "100M"} {
		if got := Count(n); got != want {
			t.Errorf("count(%g) = %s, want %s", n, got, want)
		}
	}
	for _, tc := range []struct {
		mean float64
		se   *float64
		want string
	}{{3.14159265, new(0.00123), "3.1416 ± 0.0012"}, {3.14159265, nil, "3.14159265"}, {1234.5, new(50.0), "1234 ± 50"}, {1, new(0.0), "1"}} {
		if got := MeanError(tc.mean, tc.se); got != tc.want {
			t.Errorf("meanError(%g) = %s, want %s", tc.mean, got, tc.want)
		}
	}
}
