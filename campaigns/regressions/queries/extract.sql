SELECT sum(extract(epoch FROM at)) FROM event;
