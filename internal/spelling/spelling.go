package spelling

// Nearest is the known word that is most like one that was typed, the first of several, or
// "" if in all of them more than most letters are wrong.
func Nearest(typed string, known []string, most int) string {
	best, least := "", most+1
	for _, word := range known {
		if d := Distance(typed, word); d < least {
			best, least = word, d
		}
	}
	return best
}

// Distance counts the letters that are wrong, missing, too many, or swapped with
// their neighbour.
func Distance(from, to string) int {
	a, b := []rune(from), []rune(to)
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range a {
		row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(row[j]+1, last[j+1]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
