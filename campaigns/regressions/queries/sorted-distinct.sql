SELECT count(DISTINCT customer), sum(amount) FROM visit WHERE shop < 150;
