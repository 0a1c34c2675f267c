package cli

import "testing"

func TestUnits(t *testing.T) {
	for s, want := range map[string]uint64{"7": 7, "1_000": 1000, "1e6": 1e6, "2.5e3": 2500, "18446744073709551615": 1<<64 - 1} {
		if got, err := ParseCount(s); err != nil || got != want {
			t.Errorf("parseCount(%q) = %d, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "-1", "1.5", "1e30", "0x10", "inf", "nan", "1e", "x"} {
		if got, err := ParseCount(s); err == nil {
			t.Errorf("parseCount(%q) = %d", s, got)
		}
	}
	for s, want := range map[string]uint64{"7": 7, "1k": 1024, "256M": 256 << 20, "1GiB": 1 << 30} {
		if got, err := ParseBytes(s); err != nil || got != want {
			t.Errorf("parseBytes(%q) = %d, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "M", "-1M", "1T", "99999999999999999G", "1MM"} {
		if got, err := ParseBytes(s); err == nil {
			t.Errorf("parseBytes(%q) = %d", s, got)
		}
	}
}
