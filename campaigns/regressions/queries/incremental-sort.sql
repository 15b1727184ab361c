SELECT id, note FROM task WHERE queue = 7 ORDER BY day, urgency LIMIT 20;
